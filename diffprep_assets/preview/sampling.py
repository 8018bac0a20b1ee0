"""Which samples of a published dataset to look at, and what is stored of them."""

import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from diffprep_assets.preview.fastvideo import fastvideo_folder, fastvideo_rows, fastvideo_sample
from diffprep_assets.preview.mds import mds_folder, mds_rows, mds_sample
from diffprep_assets.preview.stored_sample import Place, StoredSample
from diffprep_assets.validate.encoding import encoding_of
from diffprep_assets.validate.index_rows import open_index
from diffprep_assets.validate.metadata import DatasetFolder, read_folder
from diffprep_assets.validate.report import Check
from diffprep_assets.validate.tar_walk import WalkedSample, walk_tar
from diffprep_resources.errors import DiffprepError, SettingError
from diffprep_resources.pictures.stored import IMAGE_FORMATS

ARRAYS = ("latents", "mean", "logvar")
READ = ("caption.txt", "txt", "json", *IMAGE_FORMATS)


def published_folder(path: Path) -> DatasetFolder:
    """The dataset in `path`, in whichever format. Raises SettingError where there is none."""
    if not path.is_dir():
        raise SettingError(
            f"a dataset is a folder, a recipe's output.output_dir; there is none at {path}"
        )
    encoding = encoding_of(path)
    if encoding == "mds":
        folder, check = mds_folder(path)
    elif encoding == "fastvideo":
        folder, check = fastvideo_folder(path)
    else:
        folder, check = read_folder(path, encoding=encoding)
    if not folder.counts:
        raise SettingError(f"{path} holds no dataset to look at: {_first_failure(check)}")
    return folder


def chosen_places(folder: DatasetFolder, *, count: int, seed: int) -> list[Place]:
    """`count` samples, or all where there are fewer, sorted by shard and place in it.

    Every bucket in turn, the largest first; within a bucket every shard in turn. The same dataset
    and seed give the same samples; those that split.yaml or a skip list leaves out are not taken.
    """
    rng = random.Random(f"diffprep preview {seed}")
    numbers = {name: number for number, name in enumerate(folder.counts)}
    chosen: list[Place] = []
    with open_index(folder) as index:

        def rows(name: str) -> list[WalkedSample]:
            if folder.encoding == "mds":
                found = mds_rows(folder.tar(name))
            elif folder.encoding == "fastvideo":
                found = fastvideo_rows(folder.tar(name))
            else:
                found = list(index.samples(numbers[name])) or list(_walked(folder, name))
            kept = [row for row in found if f"{name}/{row.key}" not in folder.exclude]
            rng.shuffle(kept)
            return kept

        turns = [_in_turn(names, rows, rng=rng) for names in _by_bucket(folder)]
        while turns and len(chosen) < count:
            turn = turns.pop(0)
            place = next(turn, None)
            if place is not None:
                chosen.append(place)
                turns.append(turn)
    return sorted(chosen, key=lambda place: (place.shard, place.row.offset))


def stored_sample(folder: DatasetFolder, place: Place) -> StoredSample:
    """What the shard holds of the sample, less its text embeddings. Raises DiffprepError where a
    member is missing or cannot be read."""
    if folder.encoding == "mds":
        return mds_sample(folder, place)
    if folder.encoding == "fastvideo":
        return fastvideo_sample(folder, place)
    members = {}
    with folder.tar(place.shard).open("rb") as file:
        for part in place.row.parts:
            if part.name.removesuffix(".pth") in ARRAYS or part.name in READ:
                file.seek(part.offset)
                members[part.name] = file.read(part.size)
    picture = next((members[name] for name in IMAGE_FORMATS if name in members), None)
    if picture is None and "latents.pth" not in members:
        raise DiffprepError(
            f"{place.shard}/{place.row.key}: it has no latents.pth, and no picture "
            f"({', '.join(IMAGE_FORMATS)})"
        )
    try:
        arrays = {
            name: _array(members[f"{name}.pth"], name)
            for name in ARRAYS
            if f"{name}.pth" in members
        }
        metadata = json.loads(members.get("json", b"{}"))
        caption = members.get("caption.txt", members.get("txt", b"")).decode("utf-8")
    except (ValueError, RuntimeError, EOFError) as error:
        raise DiffprepError(f"{place.shard}/{place.row.key}: {error}") from error
    splits = {name: split for split, names in folder.splits.items() for name in names}
    return StoredSample(
        shard=place.shard,
        key=place.row.key,
        split=splits.get(place.shard, ""),
        caption=caption,
        arrays=arrays,
        metadata=metadata if isinstance(metadata, dict) else {},
        picture=None if arrays else picture,
    )


def bucket_of(folder: DatasetFolder, name: str) -> str:
    """The bucket of a shard, as `512x768`; empty where nothing says it."""
    for shard in (folder.provenance or {"shards": []})["shards"]:
        if shard["name"] == name:
            return f"{shard['width']}x{shard['height']}"
    parent = Path(name).parent.name
    return parent if "x" in parent else ""


def _by_bucket(folder: DatasetFolder) -> list[list[str]]:
    """Shards by bucket, that with the most samples first; leaving out tars that are gone."""
    groups: dict[str, list[str]] = {}
    described = (folder.provenance or {"shards": []})["shards"]
    sizes = ("tier", "width", "height", "num_frames")
    buckets = {shard["name"]: tuple(map(shard.get, sizes)) for shard in described}
    for name in folder.counts:
        if folder.tar(name).is_file() and name not in folder.exclude:
            parent = str(Path(name).parent)
            # FastVideo's shards are folders of files.
            bucket = str(buckets.get(name) or buckets.get(parent) or parent)
            groups.setdefault(bucket, []).append(name)

    def size(names: Sequence[str]) -> int:
        return sum(folder.counts[name] or 0 for name in names)

    return sorted(groups.values(), key=size, reverse=True)


def _in_turn(names: Sequence[str], rows: Any, *, rng: random.Random) -> Iterator[Place]:
    """Samples of these shards: one of each, then another of each, until none is left."""
    order = list(names)
    rng.shuffle(order)
    rest: dict[str, list[WalkedSample]] = {}
    while order:
        for name in list(order):
            if name not in rest:
                rest[name] = rows(name)
            if rest[name]:
                yield Place(name, rest[name].pop())
            else:
                order.remove(name)


def _walked(folder: DatasetFolder, name: str) -> Sequence[WalkedSample]:
    return walk_tar(folder.tar(name)).samples


def _array(data: bytes, name: str) -> np.ndarray:
    from diffprep_resources.trainers.tensors import tensor_from_bytes

    tensor = tensor_from_bytes(data, name=f"{name}.pth")
    if tensor.dim() not in (3, 4) or not tensor.is_floating_point():
        raise ValueError(
            f"{name} must be a float tensor of 3 dimensions, or of a clip 4, got {tensor.dtype} "
            f"{tuple(tensor.shape)}"
        )
    return tensor.float().numpy()


def _first_failure(check: Check) -> str:
    return str(check.failures[0]) if check.failures else check.message
