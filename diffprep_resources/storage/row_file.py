"""Stacked rows of tensors in one safetensors file, written row by row in bounded memory.

Everything known beforehand goes into the header under the one metadata key `diffprep`, as sorted
JSON (several keys would be written in random order). Rejects, known only at the end, are the
last tensor, `rejects`: UTF-8 JSON as U8. A rejected row is all zeros and is named there.
Zeros at a row's end (a caption padded to its limit) are holes in the file: they take no space.
"""

import json
import math
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from diffprep_resources.storage.atomic import replace_file

if TYPE_CHECKING:
    import numpy as np
    import torch
    from safetensors import safe_open

ITEM_BYTES = {"BF16": 2, "F16": 2, "F32": 4, "I32": 4, "U8": 1}
DTYPES = {"bfloat16": "BF16", "float16": "F16", "float32": "F32", "int32": "I32"}
REJECTS = "rejects"
_LENGTH_DIGITS = 20

RowLayout = Mapping[str, tuple[str, tuple[int, ...]]]


class RowFileWriter:
    """Writes rows in any order, each once; `close` writes the header. Rows never written are
    zeros."""

    def __init__(
        self, file: BinaryIO, *, rows: RowLayout, num_rows: int, metadata: Mapping[str, Any]
    ) -> None:
        self._file = file
        self._entries: dict[str, dict[str, Any]] = {}
        self._row_bytes: dict[str, int] = {}
        offset = 0
        for name in sorted(rows):
            dtype, shape = rows[name]
            code = DTYPES[dtype]
            self._row_bytes[name] = math.prod(shape) * ITEM_BYTES[code]
            end = offset + self._row_bytes[name] * num_rows
            self._entries[name] = {
                "dtype": code,
                "shape": [num_rows, *shape],
                "data_offsets": [offset, end],
            }
            offset = end
        self._data_bytes = offset
        self._metadata = {"diffprep": json.dumps(metadata, sort_keys=True)}
        self._header_bytes = _padded(len(self._header(10**_LENGTH_DIGITS)))
        file.truncate(8 + self._header_bytes + self._data_bytes)

    def write(self, name: str, row: int, data: bytes | memoryview) -> None:
        """Row `row` of tensor `name`; `data` is its raw little-endian content."""
        if len(data) != self._row_bytes[name]:
            raise ValueError(
                f"row of {name} must have {self._row_bytes[name]} bytes, got {len(data)}"
            )
        start = self._entries[name]["data_offsets"][0] + row * self._row_bytes[name]
        self._file.seek(8 + self._header_bytes + start)
        # The file has its full length already: what is not written there reads as zeros.
        self._file.write(bytes(data).rstrip(b"\0") if data and not data[-1] else data)

    def write_tensor(self, name: str, row: int, tensor: "torch.Tensor") -> None:
        """Row `row` of tensor `name`, from a CPU tensor of its dtype and shape."""
        import torch

        data = tensor.contiguous().view(torch.uint8).numpy()
        self.write(name, row, data.data.cast("B"))

    def close(self, *, rejects: list[dict[str, Any]]) -> None:
        """Finish the file's content. The caller syncs and names it."""
        payload = json.dumps(rejects, sort_keys=True).encode()
        self._file.seek(8 + self._header_bytes + self._data_bytes)
        self._file.write(payload)
        header = self._header(len(payload)).ljust(self._header_bytes)
        self._file.seek(0)
        self._file.write(struct.pack("<Q", self._header_bytes))
        self._file.write(header)

    def _header(self, rejects_bytes: int) -> bytes:
        entries: dict[str, Any] = {"__metadata__": self._metadata, **self._entries}
        entries[REJECTS] = {
            "dtype": "U8",
            "shape": [rejects_bytes],
            "data_offsets": [self._data_bytes, self._data_bytes + rejects_bytes],
        }
        return json.dumps(entries, sort_keys=True, separators=(",", ":")).encode()


@contextmanager
def row_file(
    path: Path, *, rows: RowLayout, num_rows: int, metadata: Mapping[str, Any]
) -> Iterator[RowFileWriter]:
    """A writer whose file takes the name `path` when the block ends well and `close` was called."""
    with replace_file(path) as file:
        yield RowFileWriter(file, rows=rows, num_rows=num_rows, metadata=metadata)


@dataclass(frozen=True, slots=True)
class RowFileHeader:
    """What a row file says of itself, without its rows."""

    metadata: dict[str, Any]
    rejects: list[dict[str, Any]]


class RowReader:
    """Rows of a whole row file, one at a time, read where they lie. `header` is that of these very
    rows, also when another file has taken the name since."""

    def __init__(self, file: "safe_open") -> None:
        names = file.keys()
        self._slices = {name: file.get_slice(name) for name in names if name != REJECTS}
        metadata = (file.metadata() or {})["diffprep"]
        rejects = file.get_tensor(REJECTS).numpy().tobytes()
        self.header = RowFileHeader(json.loads(metadata), json.loads(rejects))

    def row(self, number: int) -> "dict[str, torch.Tensor]":
        """The tensors of one row, without the leading dimension."""
        return {name: rows[number] for name, rows in self._slices.items()}


@contextmanager
def row_reader(path: Path) -> Iterator[RowReader]:
    """A reader of the file at `path`, open for the block."""
    from safetensors import safe_open

    with safe_open(path, framework="pt", device="cpu") as file:
        yield RowReader(file)


def read_header(path: Path) -> RowFileHeader | None:
    """The header of a whole row file; None when there is none, or when its size is wrong."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(0)
            if size < 8:
                return None
            (header_bytes,) = struct.unpack("<Q", file.read(8))
            if 8 + header_bytes > size:
                return None
            entries = json.loads(file.read(header_bytes))
            begin, end = entries[REJECTS]["data_offsets"]
            if 8 + header_bytes + end != size:
                return None
            file.seek(8 + header_bytes + begin)
            rejects = json.loads(file.read(end - begin))
            return RowFileHeader(json.loads(entries["__metadata__"]["diffprep"]), rejects)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        return None


def float32_rows(path: Path, *, row: int) -> "dict[str, np.ndarray]":
    """One row of a whole row file as float32, read without torch."""
    import numpy as np

    with path.open("rb") as file:
        (header_bytes,) = struct.unpack("<Q", file.read(8))
        entries = json.loads(file.read(header_bytes))
        rows = {}
        for name, entry in entries.items():
            if name in {"__metadata__", REJECTS}:
                continue
            shape = entry["shape"][1:]
            size = math.prod(shape) * ITEM_BYTES[entry["dtype"]]
            file.seek(8 + header_bytes + entry["data_offsets"][0] + row * size)
            rows[name] = _as_float32(file.read(size), entry["dtype"]).reshape(shape)
    return {name: np.ascontiguousarray(values) for name, values in rows.items()}


def _as_float32(data: bytes, dtype: str) -> "np.ndarray":
    import numpy as np

    if dtype == "BF16":
        # A bfloat16 is the upper half of a float32.
        return (np.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4")
    return np.frombuffer(data, {"F16": "<f2", "F32": "<f4", "I32": "<i4"}[dtype]).astype("<f4")


def _padded(length: int) -> int:
    return (length + 7) // 8 * 8
