"""A finished tar with its rows and record takes the place of the one before, whole or not at all.

    <shard>.next.parquet, <shard>.next.json    written beside what stands there
    <shard>.tar                                renamed over the old tar: the switch
    <shard>.parquet, <shard>.json              renamed over the old ones

A crash in between leaves `.next.json`; whose tar stands there then, its digest tells.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import xxhash

from diffprep_assets.layout import Layout
from diffprep_assets.shard.record import (
    SampleRow,
    ShardRecord,
    read_record,
    write_record,
    write_samples,
)
from diffprep_resources.storage.atomic import commit, replace_file

READ_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class ShardCommit:
    """The new tar, open for writing; `describe` it before the block ends."""

    tar: BinaryIO
    describe: Callable[[ShardRecord, Sequence[SampleRow]], None]


@contextmanager
def new_shard(layout: Layout, shard: str) -> Iterator[ShardCommit]:
    """A shard to write, which takes its place when the block ends well.

    When the block raises, what stood there stays. The caller holds the shard's lock.
    """
    described: list[tuple[ShardRecord, Sequence[SampleRow]]] = []

    def describe(record: ShardRecord, rows: Sequence[SampleRow]) -> None:
        described.append((record, rows))

    def write_next() -> None:
        record, rows = described[0]
        write_samples(layout.shard_next_samples(shard), rows)
        write_record(layout.shard_next_record(shard), record)

    with replace_file(layout.shard_file(shard), before=write_next) as tar:
        yield ShardCommit(tar, describe)
    _take_over(layout, shard)


def finish_commit(layout: Layout, shard: str) -> None:
    """Bring a commit that a crash broke off to one of its ends. The caller holds the lock."""
    if not layout.shard_next_record(shard).exists():
        layout.shard_next_samples(shard).unlink(missing_ok=True)
        return
    record = read_record(layout.shard_next_record(shard))
    if record is not None and _digest(layout.shard_file(shard)) == record.digest:
        _take_over(layout, shard)
    else:
        layout.shard_next_record(shard).unlink()
        layout.shard_next_samples(shard).unlink(missing_ok=True)


def _take_over(layout: Layout, shard: str) -> None:
    """The new rows and record in the place of the old; a mark of the old tar's damage goes."""
    if layout.shard_next_samples(shard).exists():
        commit(layout.shard_next_samples(shard), layout.shard_samples(shard))
    layout.shard_bad(shard).unlink(missing_ok=True)
    commit(layout.shard_next_record(shard), layout.shard_record(shard))


def _digest(path: Path) -> str | None:
    digest = xxhash.xxh3_128()
    try:
        with path.open("rb") as file:
            while data := file.read(READ_BYTES):
                digest.update(data)
    except FileNotFoundError:
        return None
    return digest.hexdigest()
