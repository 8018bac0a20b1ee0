"""The names that finished shards are published under, and why one never changes content.

A reader that opened the dataset before a rerun knows a shard's name, offsets and count from then.
So a rewritten shard gets a new name, `000003.tar`, then `000003-1.tar`, `000003-2.tar`, and no name
that ever held other content comes back.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from diffprep_assets.shard.record import ShardRecord
from diffprep_assets.shard_plan.plan import sized

SPLITS = ("train", "val", "test")
Split = Literal["train", "val", "test"]
TAR_SUFFIX, MDS_SUFFIX = ".tar", ".mds"
MDS_START = "shard."
# FastVideo reads training_dataset; the others are trees of the same kind.
TREES = {"train": "training_dataset", "val": "validation_dataset", "test": "test_dataset"}
WORKER_START = "worker_"
TAR_NAME = re.compile(
    r"(\d+/\d+x\d+/|\d+x\d+x\d+/)?\d{6,}(-[1-9]\d*)?\.tar"
    r"|(train|val|test)/\d+/\d+\.\d{3}/shard\.\d{6,}(-[1-9]\d*)?\.mds"
    r"|(\d+x\d+x\d+/)?(training|validation|test)_dataset/worker_\d+(-[1-9]\d*)?"
)


@dataclass(frozen=True, slots=True)
class PublishedShard:
    """One shard of the published dataset: its name relative to the output folder, and its rows.

    `skipped`: of its samples those that no trainer should get, by sample_id, each with the rule
    that says so.
    """

    name: str
    split: Split
    record: ShardRecord
    samples: Path
    skipped: Mapping[int, str] = field(default_factory=dict)

    @property
    def num_served(self) -> int:
        """Samples that a trainer gets."""
        return self.record.num_samples - len(self.skipped)


@dataclass(frozen=True, slots=True)
class NamedContent:
    """What a name held when it was given out: digest and size of the tar."""

    digest: str
    size_bytes: int


def base_name(record: ShardRecord, *, nested: bool) -> str:
    """The shard's name before its rewrite count and suffix; with several buckets, in its folder,
    which for clips also says how many frames they have."""
    number = f"{record.number:06d}"
    size = sized(record.width, record.height, record.frames)
    if not nested:
        return number
    return f"{size}/{number}" if record.frames else f"{record.tier}/{size}/{number}"


def mds_base_name(record: ShardRecord, *, split: Split) -> str:
    """The same of an MDS shard, in the folder where PRX's loader looks for its split, tier and
    aspect (width / height)."""
    folder = f"{split}/{record.tier}/{record.width / record.height:.3f}"
    return f"{folder}/{MDS_START}{record.number:06d}"


def fastvideo_base_name(record: ShardRecord, *, split: Split, nested: bool) -> str:
    """The same of the folder of a FastVideo shard, in its split's tree; with several buckets, in
    its bucket's folder."""
    tree = f"{TREES[split]}/{WORKER_START}{record.number}"
    return f"{sized(record.width, record.height, record.frames)}/{tree}" if nested else tree


def tar_name(base: str, *, rewrites: int) -> str:
    """`000003.tar` at first, `000003-2.tar` after two rewrites; `shard.000003-2.mds` of MDS, and
    the folder `worker_3-2` of FastVideo."""
    name, suffix = base.rpartition("/")[2], TAR_SUFFIX
    if name.startswith(MDS_START):
        suffix = MDS_SUFFIX
    elif name.startswith(WORKER_START):
        suffix = ""
    return f"{base}{suffix}" if rewrites == 0 else f"{base}-{rewrites}{suffix}"


def split_name(name: str) -> tuple[str, int]:
    """The base and the number of rewrites of a name that `tar_name` made."""
    folder, _, file = name.removesuffix(TAR_SUFFIX).removesuffix(MDS_SUFFIX).rpartition("/")
    number, _, rewrites = file.partition("-")
    return (f"{folder}/{number}" if folder else number), int(rewrites or 0)


def is_tar_name(name: object) -> bool:
    """True for what `tar_name` makes; anything else read from a file never becomes a path."""
    return isinstance(name, str) and TAR_NAME.fullmatch(name) is not None


def choose_name(
    base: str,
    *,
    digest: str,
    given: Mapping[str, NamedContent],
    last_rewrites: int | None,
    fits: Callable[[str], bool],
    taken: Callable[[str], bool],
) -> str:
    """The name for content `digest`: one given to it before if that `fits`, else a new one.

    `given` are the names that this output knows; `last_rewrites` the highest count ever given to
    `base`, None at first; `fits` says that nothing but this content stands at the name; `taken`
    that some file does.
    """
    known = [name for name, content in given.items() if content.digest == digest]
    mine = [name for name in known if split_name(name)[0] == base]
    for name in sorted(mine, key=lambda name: split_name(name)[1], reverse=True):
        if fits(name):
            return name
    rewrites = 0 if last_rewrites is None else last_rewrites + 1
    while taken(tar_name(base, rewrites=rewrites)):
        rewrites += 1
    return tar_name(base, rewrites=rewrites)


def highest_rewrites(names: Iterable[str], *, known: Mapping[str, int]) -> dict[str, int]:
    """`known` (rewrite counts by base) raised to cover `names`, sorted by base."""
    highest = dict(known)
    for name in names:
        base, rewrites = split_name(name)
        highest[base] = max(rewrites, highest.get(base, 0))
    return dict(sorted(highest.items()))
