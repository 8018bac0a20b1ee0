"""Reads MDS shards: header, any sample, all in order. Nothing in a shard is trusted."""

import json
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from diffprep_resources.mds.encodings import decode
from diffprep_resources.mds.layout import (
    VERSION,
    DamagedShardError,
    ShardConfig,
    parse_config,
)


@dataclass(frozen=True, slots=True)
class ShardHeader:
    """What a shard says of itself. `offsets`: where each sample starts, and the last one ends."""

    config: ShardConfig
    offsets: tuple[int, ...]

    @property
    def num_samples(self) -> int:
        return len(self.offsets) - 1


class ShardReader:
    """The samples of one open shard."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.header = _read_header(file)

    def sample_bytes(self, number: int) -> bytes:
        """The bytes of sample `number`. Raises IndexError where there is none."""
        if not 0 <= number < self.header.num_samples:
            raise IndexError(f"sample {number} of {self.header.num_samples}")
        start, end = self.header.offsets[number : number + 2]
        self._file.seek(start)
        return self._file.read(end - start)

    def column_sizes(self, number: int) -> dict[str, int]:
        """Bytes of each column of sample `number`; reads no more than them."""
        columns = self.header.config.columns
        open_sizes = [column.name for column in columns if column.size is None]
        self._file.seek(self.header.offsets[number])
        data = self._file.read(4 * len(open_sizes))
        if len(data) < 4 * len(open_sizes):
            raise DamagedShardError(f"sample {number} is cut short")
        found = dict(zip(open_sizes, struct.unpack(f"<{len(open_sizes)}I", data), strict=True))
        return {column.name: found.get(column.name, column.size or 0) for column in columns}

    def sample(self, number: int) -> dict[str, Any]:
        """The values of sample `number` by column. Raises DamagedShardError."""
        return decode_sample(self.header.config, self.sample_bytes(number))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for number in range(self.header.num_samples):
            yield self.sample(number)


@contextmanager
def open_shard(path: Path) -> Iterator[ShardReader]:
    """A reader of the shard at `path`, open for the block. Raises DamagedShardError, OSError."""
    with path.open("rb") as file:
        yield ShardReader(file)


def raw_columns(config: ShardConfig, data: bytes) -> dict[str, bytes]:
    """The bytes of each column of one sample. Raises DamagedShardError where they do not add up."""
    open_sizes = sum(column.size is None for column in config.columns)
    place = 4 * open_sizes
    if len(data) < place:
        raise DamagedShardError(f"a sample of {len(data)} bytes has no room for its sizes")
    sizes = iter(struct.unpack(f"<{open_sizes}I", data[:place]))
    columns = {}
    for column in config.columns:
        size = next(sizes) if column.size is None else column.size
        columns[column.name] = data[place : place + size]
        place += size
    if place != len(data):
        raise DamagedShardError(f"a sample has {len(data)} bytes, its columns {place}")
    return columns


def decode_sample(config: ShardConfig, data: bytes) -> dict[str, Any]:
    """The values of one sample by column. Raises DamagedShardError naming the column."""
    raw = raw_columns(config, data)
    values = {}
    for column in config.columns:
        try:
            values[column.name] = decode(column.encoding, raw[column.name])
        except ValueError as error:
            raise DamagedShardError(f"column {column.name}: {error}") from error
    return values


def read_index(path: Path) -> list[dict[str, Any]]:
    """The shards' entries of an index.json. Raises DamagedShardError, FileNotFoundError."""
    try:
        content = json.loads(path.read_bytes())
        if content["version"] != VERSION:
            raise ValueError(f"version {content['version']}, {VERSION} is read")
        entries = content["shards"]
        for entry in entries:
            basename = entry["raw_data"]["basename"]
            if Path(basename).name != basename:
                raise ValueError(f"a shard's name must be that of a file, got {basename!r}")
            for number in (entry["samples"], entry["raw_data"]["bytes"]):
                if type(number) is not int:
                    raise ValueError(f"{basename}: samples and bytes must be whole, got {number!r}")
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedShardError(f"{path} is no index of MDS shards: {error}") from error
    return entries


def _read_header(file: BinaryIO) -> ShardHeader:
    size = file.seek(0, 2)
    file.seek(0)
    num_samples = int.from_bytes(file.read(4), "little")
    table_end = 4 * (num_samples + 2)
    if num_samples == 0 or table_end > size:
        raise DamagedShardError(f"it says {num_samples} samples, and has {size} bytes")
    offsets = struct.unpack(f"<{num_samples + 1}I", file.read(table_end - 4))
    if offsets[0] < table_end or list(offsets) != sorted(offsets):
        raise DamagedShardError("its offsets do not ascend")
    if offsets[-1] != size:
        raise DamagedShardError(f"it has {size} bytes, its offsets end at {offsets[-1]}")
    return ShardHeader(parse_config(file.read(offsets[0] - table_end)), offsets)
