"""Writes one MDS shard, sample by sample, in the memory of one sample."""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

import xxhash

from diffprep_resources.errors import SettingError
from diffprep_resources.mds.encodings import encode
from diffprep_resources.mds.layout import LARGEST_BYTES, ShardConfig

MOVE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class WrittenSample:
    """One sample's bytes in the shard: their number and digest, and where each column's bytes lie,
    counted from the sample's own start."""

    size: int
    digest: str
    parts: tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True)
class ShardSummary:
    """A finished shard: whole size, digest of all bytes, where each sample starts and the last one
    ends."""

    size_bytes: int
    digest: str
    offsets: tuple[int, ...]


def encode_sample(
    config: ShardConfig, sample: Mapping[str, Any]
) -> tuple[bytes, tuple[tuple[str, int, int], ...]]:
    """A sample's bytes, and (column, offset, size) of each value in them.

    Raises ValueError naming the column for a value that its encoding does not take, and for columns
    that are missing or unknown.
    """
    names = [column.name for column in config.columns]
    if sorted(sample) != names:
        raise ValueError(f"a sample has the columns {names}, got {sorted(sample)}")
    values, sizes = [], []
    for column in config.columns:
        try:
            data = encode(column.encoding, sample[column.name])
        except ValueError as error:
            raise ValueError(f"column {column.name}: {error}") from error
        values.append(data)
        if column.size is None:
            sizes.append(len(data))
    place = 4 * len(sizes)
    parts = []
    for column, data in zip(config.columns, values, strict=True):
        parts.append((column.name, place, len(data)))
        place += len(data)
    if place > LARGEST_BYTES:
        raise _too_large(place, num_samples=1)
    return struct.pack(f"<{len(sizes)}I", *sizes) + b"".join(values), tuple(parts)


class ShardWriter:
    """Writes samples into an open binary file (read and write), of which it owns all bytes.

    The header comes first and its size depends on the number of samples: room is left for
    `max_samples`, and where fewer came, `close` moves them up.
    """

    def __init__(self, file: BinaryIO, *, config: ShardConfig, max_samples: int) -> None:
        self._file = file
        self._config = config
        self._config_bytes = config.json_bytes
        self._max_samples = max_samples
        self._ends: list[int] = []
        file.seek(self._header_bytes(max_samples))

    def add(self, sample: Mapping[str, Any]) -> WrittenSample:
        """The sample as it was written. Raises ValueError as `encode_sample`, SettingError for a
        shard that would get too large for its offsets."""
        if len(self._ends) == self._max_samples:
            raise ValueError(f"this shard was to have at most {self._max_samples} samples")
        data, parts = encode_sample(self._config, sample)
        end = (self._ends[-1] if self._ends else 0) + len(data)
        if self._header_bytes(len(self._ends) + 1) + end > LARGEST_BYTES:
            raise _too_large(end, num_samples=len(self._ends) + 1)
        self._file.write(data)
        self._ends.append(end)
        return WrittenSample(len(data), xxhash.xxh3_128_hexdigest(data), parts)

    def close(self) -> ShardSummary:
        """Sizes and digest, with the header written. Leaves the file open to its opener.

        Raises ValueError for a shard without samples, which no reader takes.
        """
        if not self._ends:
            raise ValueError("an MDS shard holds at least one sample, got 0")
        start = self._header_bytes(len(self._ends))
        self._move_up(to=start)
        offsets = [start, *(start + end for end in self._ends)]
        self._file.seek(0)
        self._file.write(struct.pack(f"<{len(offsets) + 1}I", len(self._ends), *offsets))
        self._file.write(self._config_bytes)
        self._file.truncate(offsets[-1])
        digest = xxhash.xxh3_128()
        self._file.seek(0)
        while data := self._file.read(MOVE_BYTES):
            digest.update(data)
        return ShardSummary(offsets[-1], digest.hexdigest(), tuple(offsets))

    def _header_bytes(self, num_samples: int) -> int:
        return 4 * (num_samples + 2) + len(self._config_bytes)

    def _move_up(self, *, to: int) -> None:
        """The samples' bytes from where room for all was left to where they belong."""
        distance = self._header_bytes(self._max_samples) - to
        if distance == 0:
            return
        for place in range(to, to + self._ends[-1], MOVE_BYTES):
            self._file.seek(place + distance)
            data = self._file.read(min(MOVE_BYTES, to + self._ends[-1] - place))
            self._file.seek(place)
            self._file.write(data)


def _too_large(size_bytes: int, *, num_samples: int) -> SettingError:
    return SettingError(
        f"an MDS shard has at most {LARGEST_BYTES:,} bytes, since its offsets are 32 bits; "
        f"{num_samples:,} samples have {size_bytes:,}. Lower output.shard_size"
    )
