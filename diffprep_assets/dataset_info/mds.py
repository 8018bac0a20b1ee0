"""An MDS tree, ours or another tool's: what its indexes and its first shard say."""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from diffprep_assets.dataset_info.facts import DatasetInfo, validity_of
from diffprep_assets.dataset_info.members import (
    MemberInfo,
    lengths_of,
    picture_words,
    shown_text,
)
from diffprep_assets.project import Project
from diffprep_assets.validate.mds_tree import MdsTree, read_tree
from diffprep_resources.errors import DiffprepError
from diffprep_resources.mds.encodings import PICTURES
from diffprep_resources.mds.layout import Column, DamagedShardError
from diffprep_resources.mds.reader import open_shard

SPLITS = ("train", "val", "test")
CAPTION = "caption"
COUNTED = 100_000
"""Sizes of the columns are read of so many samples, of shards all over the tree."""
LOADING = """\
from pathlib import Path

from streaming import Stream, StreamingDataset
from diffprep_resources.trainers.streaming import SkipLists, register_bf16


class Dataset(SkipLists, StreamingDataset):
    pass


register_bf16()
indexes = sorted(Path("{folder}").rglob("index.json"))
dataset = Dataset(
    streams=[Stream(local=str(index.parent)) for index in indexes],
    batch_size=8,
    batching_method="per_stream",
)
"""


def mds_info(path: Path, *, project: Project | None) -> DatasetInfo:
    """What there is to say. Raises DiffprepError where the folder holds no shard that can be
    read."""
    tree, check = read_tree(path)
    problems = [str(found) for found in check.failures]
    if not tree.entries:
        raise DiffprepError(f"{path} holds no dataset that can be read: {'; '.join(problems)}")
    sizes, captions = _column_sizes(tree, problems)
    counted = [entry["samples"] for entry in tree.entries.values() if entry is not None]
    known = [tree.path / name for name in tree.entries if (tree.path / name).is_file()]
    splits = _splits(tree)
    folder = path / "train" if "train" in splits and (path / "train").is_dir() else path
    return DatasetInfo(
        path=path,
        provenance=tree.provenance,
        kind="MDS",
        encoding="mds",
        shards=len(tree.entries),
        samples=sum(counted) if len(counted) == len(tree.entries) else _described(tree),
        splits=splits,
        excluded=0,
        members=tuple(_members(tree, sizes, problems)),
        captions=lengths_of(captions) if captions else None,
        size_bytes=sum(shard.stat().st_size for shard in known),
        loading=LOADING.format(folder=folder),
        validity=validity_of(path, project),
        problems=tuple(dict.fromkeys(problems)),
    )


def _described(tree: MdsTree) -> int | None:
    """Samples by dataset.json, which knows shards that no index names, as all are skipped."""
    if tree.provenance is None:
        return None
    return sum(shard["num_samples"] for shard in tree.described.values())


def _splits(tree: MdsTree) -> dict[str, int]:
    """By dataset.json, else by the first folder's name where that is a split's."""
    if tree.provenance is not None:
        found = tree.provenance["counts"]["splits"]
        return {split: found[split] for split in SPLITS if split in found}
    counts: Counter[str] = Counter()
    for name, entry in tree.entries.items():
        if entry is not None and "/" in name:
            counts[name.partition("/")[0]] += entry["samples"]
    return {split: counts[split] for split in SPLITS if split in counts}


def _shards(tree: MdsTree) -> Iterator[str]:
    """Names of shards, from all over the tree: each half of what is left, then its quarters."""
    names = sorted(tree.entries)
    step = 1 << max(0, (len(names) - 1).bit_length())
    seen: set[int] = set()
    while step:
        for place in range(0, len(names), step):
            if place not in seen:
                seen.add(place)
                yield names[place]
        step //= 2


def _column_sizes(
    tree: MdsTree, problems: list[str]
) -> tuple[Mapping[str, tuple[int, int]], list[int]]:
    """By column the samples looked at and their bytes, and the bytes of each caption."""
    samples: Counter[str] = Counter()
    total: Counter[str] = Counter()
    captions: list[int] = []
    looked = 0
    for name in _shards(tree):
        if looked >= COUNTED:
            break
        try:
            with open_shard(tree.path / name) as reader:
                for number in range(reader.header.num_samples):
                    sizes = reader.column_sizes(number)
                    total.update(sizes)
                    samples.update(dict.fromkeys(sizes, 1))
                    if CAPTION in sizes:
                        captions.append(sizes[CAPTION])
                looked += reader.header.num_samples
        except (DamagedShardError, OSError) as error:
            problems.append(f"{name}: {error}")
    return {column: (samples[column], total[column]) for column in samples}, captions


def _members(
    tree: MdsTree, sizes: Mapping[str, tuple[int, int]], problems: list[str]
) -> Iterator[MemberInfo]:
    """Every column of the first sample that can be read."""
    for name in sorted(tree.entries):
        try:
            with open_shard(tree.path / name) as reader:
                config, values = reader.header.config, reader.sample(0)
        except (DamagedShardError, OSError) as error:
            problems.append(f"{name}: {error}")
            continue
        for column in config.columns:
            yield _member(column, values[column.name], sizes.get(column.name, (1, 0)), problems)
        return


def _member(column: Column, value: Any, sizes: tuple[int, int], problems: list[str]) -> MemberInfo:
    samples, total = sizes
    if isinstance(value, np.ndarray):
        shape = tuple(value.shape)
        dtype = "bfloat16" if column.encoding == "bf16" else str(value.dtype)
        return MemberInfo(column.name, f"{dtype} {list(shape)}", shape, dtype, samples, total)
    content = column.encoding
    if isinstance(value, str):
        content = shown_text(value)
    elif isinstance(value, int):
        content = f"int {value}"
    elif column.encoding in PICTURES:
        try:
            content = picture_words(value)
        except Exception as error:  # whatever Pillow raises on damaged bytes
            problems.append(f"the first sample's {column.name} cannot be read: {error}")
            content = "cannot be read"
    return MemberInfo(column.name, content, None, None, samples, total)
