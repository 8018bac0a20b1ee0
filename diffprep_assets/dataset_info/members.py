"""What one sample of a dataset holds, member by member, and how much room each kind takes."""

import io
import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from diffprep_assets.validate.index_rows import open_index
from diffprep_assets.validate.metadata import DatasetFolder
from diffprep_assets.validate.tar_walk import WalkedSample, walk_tar

ARRAYS = ("pth", "pt", "npy")
PICTURES = ("jpg", "jpeg", "png", "webp", "gif", "bmp", "tif", "tiff")
TEXTS = ("txt", "caption", "text")
SHOWN_TEXT = 60


@dataclass(frozen=True, slots=True)
class MemberInfo:
    """One kind of member of a tar, or one column of MDS. `content` says what the first sample's
    holds: a tensor's shape and dtype, a picture's size, the beginning of a text. Bytes are of
    `samples`: all where the index knows, else the first; of MDS at most some 100,000."""

    name: str
    content: str
    shape: tuple[int, ...] | None
    dtype: str | None
    samples: int
    total_bytes: int

    @property
    def bytes_per_sample(self) -> float:
        return self.total_bytes / self.samples


@dataclass(frozen=True, slots=True)
class Lengths:
    """Captions' lengths in bytes of UTF-8."""

    captions: int
    shortest: int
    median: int
    p95: int
    longest: int


def member_infos(folder: DatasetFolder, problems: list[str]) -> list[MemberInfo]:
    """Every kind of member of the dataset's first sample, in tar order; problems are added."""
    sample, members = _first_sample(folder, problems)
    if sample is None:
        return []
    sizes = _sizes(folder, problems)
    found = []
    for name, data in members.items():
        count, total = sizes.get(name, (1, len(data)))
        content, shape, dtype = _content(name, data, problems)
        found.append(MemberInfo(name, content, shape, dtype, count, total))
    return found


def caption_lengths(folder: DatasetFolder) -> Lengths | None:
    """Over all samples, by the index alone; None where there is no index, or are no captions."""
    for name in ("caption.txt", "txt", "caption"):
        with open_index(folder) as index:
            try:
                sizes = index.sizes_of_part(name)
            except sqlite3.Error:
                return None
        if sizes:
            return lengths_of(sizes)
    return None


def lengths_of(sizes: Sequence[int]) -> Lengths:
    """Of one caption or more."""
    ordered, last = sorted(sizes), len(sizes) - 1
    places = (0, last // 2, last * 95 // 100, last)
    return Lengths(len(sizes), *(ordered[place] for place in places))


def shown_text(text: str) -> str:
    """The beginning of a text, on one line, in quotes."""
    line = " ".join(text.split())
    more = "..." if len(line) > SHOWN_TEXT else ""
    return f'"{line[:SHOWN_TEXT]}{more}"'


def picture_words(data: bytes) -> str:
    """A picture's format and size. Raises what Pillow does on other bytes."""
    from PIL import Image

    with Image.open(io.BytesIO(data)) as image:
        return f"{image.format} {image.width} x {image.height}"


def _first_sample(
    folder: DatasetFolder, problems: list[str]
) -> tuple[WalkedSample | None, dict[str, bytes]]:
    for name in folder.counts:
        try:
            walk = walk_tar(folder.tar(name))
            if not walk.samples:
                problems.append(f"{name}: {walk.problem or 'holds no sample'}")
                continue
            sample = walk.samples[0]
            members = {}
            with folder.tar(name).open("rb") as file:
                for part in sample.parts:
                    file.seek(part.offset)
                    members[part.name] = file.read(part.size)
            return sample, members
        except OSError as error:
            problems.append(f"{name}: {error.strerror}")
    return None, {}


def _sizes(folder: DatasetFolder, problems: list[str]) -> dict[str, tuple[int, int]]:
    """Samples and bytes of each kind of member, over the whole dataset."""
    try:
        with open_index(folder) as index:
            return index.part_sizes()
    except (sqlite3.Error, OSError) as error:
        problems.append(f"the index cannot be read: {error}")
        return {}


def _content(
    name: str, data: bytes, problems: list[str]
) -> tuple[str, tuple[int, ...] | None, str | None]:
    suffix = name.rpartition(".")[2].lower()
    try:
        if suffix in ARRAYS:
            shape, dtype = _array(suffix, data, name)
            return f"{dtype} {list(shape)}", shape, dtype
        if suffix in PICTURES:
            return picture_words(data), None, None
        if suffix in TEXTS:
            return shown_text(data.decode("utf-8")), None, None
        if suffix == "json":
            return _json(json.loads(data)), None, None
    except Exception as error:  # whatever the libraries raise on damaged bytes
        words = f"{type(error).__name__} {error}".splitlines()[0]
        problems.append(f"the first sample's {name} cannot be read: {words}")
        return "cannot be read", None, None
    return "", None, None


def _array(suffix: str, data: bytes, name: str) -> tuple[tuple[int, ...], str]:
    if suffix == "npy":
        import numpy as np

        array = np.load(io.BytesIO(data), allow_pickle=False)
        return tuple(array.shape), str(array.dtype)
    from diffprep_resources.trainers.tensors import tensor_from_bytes

    tensor = tensor_from_bytes(data, name=name)
    return tuple(tensor.shape), str(tensor.dtype).removeprefix("torch.")


def _json(value: Any) -> str:
    return f"keys {', '.join(map(str, value))}" if isinstance(value, Mapping) else "JSON"
