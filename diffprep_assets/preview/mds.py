"""The samples of a published MDS tree, told as those of a folder of tars are."""

import itertools
import json
from collections import Counter
from pathlib import Path
from typing import Any

from diffprep_assets.layout import Layout
from diffprep_assets.preview.stored_sample import Place, StoredSample
from diffprep_assets.validate.mds_tree import MdsTree, read_tree
from diffprep_assets.validate.metadata import DatasetFolder
from diffprep_assets.validate.report import Check
from diffprep_assets.validate.tar_walk import WalkedSample
from diffprep_resources.errors import DiffprepError
from diffprep_resources.mds.layout import DamagedShardError
from diffprep_resources.mds.reader import open_shard

SIZES = ("width", "height", "original_width", "original_height")


def mds_folder(path: Path) -> tuple[DatasetFolder, Check]:
    """The tree as a folder of shards, whose samples are named by their numbers, and whether its
    indexes are sound."""
    tree, check = read_tree(path)
    folder = DatasetFolder(
        Layout(root=path.parent, dataset=path.name, output_dir=path),
        {name: None if entry is None else entry["samples"] for name, entry in tree.entries.items()},
        _splits(tree),
        frozenset(_skipped(tree)),
        tree.provenance,
        encoding="mds",
    )
    return folder, check


def mds_rows(path: Path) -> list[WalkedSample]:
    """The samples of a shard: number, offset and size. Raises DiffprepError where it cannot be
    read."""
    try:
        with open_shard(path) as reader:
            offsets = reader.header.offsets
    except (DamagedShardError, OSError) as error:
        raise DiffprepError(f"{path}: {error}") from error
    return [
        WalkedSample(str(number), start, end - start, ())
        for number, (start, end) in enumerate(itertools.pairwise(offsets))
    ]


def mds_sample(folder: DatasetFolder, place: Place) -> StoredSample:
    """What the shard holds of the sample. Raises DiffprepError where it has no picture."""
    try:
        with open_shard(folder.tar(place.shard)) as reader:
            values = reader.sample(int(place.row.key))
    except (DamagedShardError, IndexError, OSError) as error:
        raise DiffprepError(f"{place.shard}, sample {place.row.key}: {error}") from error
    picture = values.get("image")
    if not isinstance(picture, bytes):
        raise DiffprepError(f"{place.shard}, sample {place.row.key}: it has no column `image`")
    splits = {name: split for split, names in folder.splits.items() for name in names}
    return StoredSample(
        shard=place.shard,
        key=str(values.get("id", place.row.key)),
        split=splits.get(place.shard, ""),
        caption=str(values.get("caption", "")),
        arrays={},
        metadata=_metadata(values),
        picture=picture,
    )


def _metadata(values: dict[str, Any]) -> dict[str, Any]:
    found = {name: values[name] for name in SIZES if isinstance(values.get(name), int)}
    source_key = values.get("source_key")
    return found | ({"source_key": source_key} if isinstance(source_key, str) else {})


def _splits(tree: MdsTree) -> dict[str, tuple[str, ...]]:
    """By dataset.json; of another tool's tree by the first folder, where there are several."""
    found: dict[str, list[str]] = {}
    described = tree.described
    for name in tree.entries:
        shard = described.get(name)
        split = shard["split"] if shard else name.partition("/")[0] if "/" in name else ""
        found.setdefault(split, []).append(name)
    return {split: tuple(names) for split, names in found.items() if split}


def _skipped(tree: MdsTree) -> list[str]:
    """`<shard>/<number>` of every sample that a skip list names; the shard alone where all are."""
    names: list[str] = []
    for shard, paths in tree.sidecars.items():
        numbers: Counter[int] = Counter()
        for path in paths:
            try:
                numbers.update(json.loads(path.read_bytes())["skip"])
            except (OSError, ValueError, KeyError, TypeError):
                # `diffprep validate` says what is wrong with it.
                continue
        names += [f"{shard}/{number}" for number in numbers]
    return names
