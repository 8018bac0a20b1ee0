"""What the index files say of one shard: rows of index.sqlite, digests, offsets of .idx."""

import contextlib
import sqlite3
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow.parquet as pq

from diffprep_assets.energon_prepare.index import MetaFiles
from diffprep_assets.shard.tar_writer import TarPart
from diffprep_assets.validate.metadata import DatasetFolder
from diffprep_assets.validate.tar_walk import WalkedSample


class IndexRows:
    """Reads index.sqlite and digests.parquet shard by shard; either may be absent."""

    def __init__(self, database: sqlite3.Connection | None, digests: pq.ParquetFile | None) -> None:
        self._database = database
        self._digests = digests
        self._groups = _groups_by_shard(digests)

    @property
    def has_samples(self) -> bool:
        return self._database is not None

    @property
    def has_digests(self) -> bool:
        return self._digests is not None

    def num_samples(self) -> int:
        """Samples in the whole index. sqlite3.DatabaseError when it is damaged."""
        if self._database is None:
            return 0
        return self._database.execute("SELECT COUNT(*) FROM samples").fetchone()[0]

    def part_sizes(self) -> dict[str, tuple[int, int]]:
        """How many members of each name (without key) there are, and their bytes together."""
        if self._database is None:
            return {}
        rows = self._database.execute(
            "SELECT part_name, COUNT(*), SUM(content_byte_size) FROM sample_parts "
            "GROUP BY part_name"
        )
        return {name: (count, total) for name, count, total in rows}

    def sizes_of_part(self, name: str) -> list[int]:
        """Bytes of every member of this name, smallest first."""
        if self._database is None:
            return []
        rows = self._database.execute(
            "SELECT content_byte_size FROM sample_parts WHERE part_name = ? "
            "ORDER BY content_byte_size",
            (name,),
        )
        return [size for (size,) in rows]

    def samples(self, number: int) -> tuple[WalkedSample, ...]:
        """The rows of the shard at that place of .info.json."""
        if self._database is None:
            return ()
        parts: dict[int, list[TarPart]] = {}
        for place, *part in self._database.execute(
            "SELECT sample_index, part_name, content_byte_offset, content_byte_size "
            "FROM sample_parts WHERE tar_file_id = ? ORDER BY sample_index, content_byte_offset",
            (number,),
        ):
            parts.setdefault(place, []).append(TarPart(*part))
        rows = self._database.execute(
            "SELECT sample_index, sample_key, byte_offset, byte_size "
            "FROM samples WHERE tar_file_id = ? ORDER BY sample_index",
            (number,),
        )
        return tuple(
            WalkedSample(key, offset, size, tuple(parts.get(place, ())))
            for place, key, offset, size in rows
        )

    def digests(self, shard: str) -> Mapping[str, str]:
        """xxh3_128 of each sample's bytes, by key; empty when none are kept for the shard."""
        if self._digests is None or shard not in self._groups:
            return {}
        table = self._digests.read_row_groups(self._groups[shard], columns=["key", "digest"])
        keys, values = table.column("key").to_pylist(), table.column("digest").to_pylist()
        return dict(zip(keys, values, strict=True))


class BucketIndexes(IndexRows):
    """The indexes of a folder whose buckets are datasets of their own, as one."""

    def __init__(self, folder: DatasetFolder, indexes: Mapping[str, IndexRows]) -> None:
        self._indexes = indexes
        self._places: list[tuple[str, int]] = []
        for bucket in folder.buckets:
            held = folder.in_bucket(bucket, folder.counts)
            self._places += [(bucket, number) for number in range(len(held))]

    @property
    def has_samples(self) -> bool:
        return all(index.has_samples for index in self._indexes.values())

    @property
    def has_digests(self) -> bool:
        return all(index.has_digests for index in self._indexes.values())

    def num_samples(self) -> int:
        return sum(index.num_samples() for index in self._indexes.values())

    def part_sizes(self) -> dict[str, tuple[int, int]]:
        sums: dict[str, tuple[int, int]] = {}
        for index in self._indexes.values():
            for name, (count, size) in index.part_sizes().items():
                known = sums.get(name, (0, 0))
                sums[name] = (known[0] + count, known[1] + size)
        return sums

    def sizes_of_part(self, name: str) -> list[int]:
        return sorted(size for one in self._indexes.values() for size in one.sizes_of_part(name))

    def samples(self, number: int) -> tuple[WalkedSample, ...]:
        bucket, place = self._places[number]
        return self._indexes[bucket].samples(place)

    def digests(self, shard: str) -> Mapping[str, str]:
        bucket, _, file = shard.rpartition("/")
        return self._indexes[bucket].digests(file)


@contextlib.contextmanager
def open_index(folder: DatasetFolder) -> Iterator[IndexRows]:
    """The dataset's index for the length of the block, read-only."""
    with contextlib.ExitStack() as stack:
        opened = {
            bucket: stack.enter_context(_open_bucket(folder.meta(bucket)))
            for bucket in folder.buckets
        }
        yield opened[""] if "" in opened else BucketIndexes(folder, opened)


@contextlib.contextmanager
def _open_bucket(meta: MetaFiles) -> Iterator[IndexRows]:
    with contextlib.ExitStack() as stack:
        database = digests = None
        if meta.index_sqlite.is_file():
            uri = f"{meta.index_sqlite.resolve().as_uri()}?mode=ro&immutable=1"
            database = stack.enter_context(contextlib.closing(sqlite3.connect(uri, uri=True)))
        if meta.digests.is_file():
            digests = stack.enter_context(pq.ParquetFile(meta.digests))
        yield IndexRows(database, digests)


def read_idx(path: Path) -> tuple[int, ...]:
    """The offsets of an .idx file; a cut last one is left out."""
    data = path.read_bytes()
    return struct.unpack(f"<{len(data) // 8}Q", data[: len(data) // 8 * 8])


def _groups_by_shard(digests: pq.ParquetFile | None) -> dict[str, list[int]]:
    """Row groups by shard: the writer makes one per shard."""
    groups: dict[str, list[int]] = {}
    if digests is None:
        return groups
    place = digests.schema_arrow.get_field_index("shard")
    for number in range(digests.num_row_groups):
        statistics = digests.metadata.row_group(number).column(place).statistics
        if statistics is not None and statistics.has_min_max:
            groups.setdefault(statistics.min, []).append(number)
    return groups
