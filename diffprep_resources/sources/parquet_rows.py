"""Rows of parquet files: which columns hold media and caption, read in order or at random."""

import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

import pyarrow as pa
import pyarrow.parquet as pq

from diffprep_resources.errors import SampleReject, SettingError
from diffprep_resources.hub.lfs_pointer import LFS_POINTER, is_lfs_pointer
from diffprep_resources.sources.fields import FieldKeys, splits

BATCH_ROWS = 16
CACHE_BYTES = 128 << 20
_BUFFER_BYTES = 1 << 20
UNREADABLE = (pa.ArrowException, OSError, ValueError, OverflowError)
"""What pyarrow raises on damaged files; `as_reject` lets a failing disk through."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column and the dotted path inside its values."""

    name: str
    path: str


def as_reject(error: Exception, *, what: str) -> SampleReject:
    """The reject for what pyarrow raised on a damaged file; raises again an error of the disk."""
    if isinstance(error, OSError) and error.errno is not None:
        if not isinstance(error, FileNotFoundError | PermissionError):
            raise error
        message = f"{what}: {error.strerror}"
        gone = isinstance(error, FileNotFoundError)
        code = "source_missing" if gone else "unreadable_file"
        return SampleReject(code, message, transient=True)
    return SampleReject("unreadable_file", f"{what}: {' '.join(str(error).split())[:300]}")


def open_parquet(path: bytes) -> pq.ParquetFile:
    """The file with its footer read; column data is read a page at a time."""
    file = open(path, "rb")  # noqa: SIM115 (closed with the ParquetFile)
    try:
        if is_lfs_pointer(file.peek(64)):
            raise pa.ArrowInvalid(LFS_POINTER)
        # Pre-buffering, pyarrow's default, would hold the columns of a whole row group.
        return pq.ParquetFile(
            pa.PythonFile(file, mode="r"), buffer_size=_BUFFER_BYTES, pre_buffer=False
        )
    except BaseException:
        file.close()
        raise


def group_starts(file: pq.ParquetFile) -> list[int]:
    """First row of each row group, and the number of rows at the end."""
    metadata = file.metadata
    sizes = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
    if any(size < 0 for size in sizes):
        raise pa.ArrowInvalid("a row group claims a negative number of rows")
    return list(accumulate(sizes, initial=0))


def image_column(schema: pa.Schema, keys: FieldKeys) -> Column:
    """The first image key's column that can hold pictures or clips. Raises SettingError without."""
    found = list(_columns(schema, keys.image_keys))
    for column, kind in found:
        if _holds_pictures(kind):
            return column
    listed = "; ".join(f"{column.name} is {kind}" for column, kind in found)
    raise SettingError(
        f"no column holds the {keys.media}: tried {list(keys.image_keys)}, "
        f"{f'but {listed}; ' if found else ''}allowed are binary, struct<bytes, path> and a path, "
        "or an entry of a list of these, such as images.0; "
        f"the columns are {schema.names}; set data_format.image_key"
    )


def caption_column(schema: pa.Schema, keys: FieldKeys) -> Column:
    """The first caption key's column. Raises SettingError without one, listing the columns."""
    for column, _ in _columns(schema, keys.caption_keys):
        return column
    raise SettingError(
        f"no column holds the captions: tried {list(keys.caption_keys)}; "
        f"the columns are {schema.names}; set data_format.caption_key"
    )


def _columns(schema: pa.Schema, keys: tuple[str, ...]) -> Iterator[tuple[Column, pa.DataType]]:
    """Columns that the keys name, with the type at the path inside them."""
    for key in keys:
        for name, path in splits(key):
            if name not in schema.names:
                continue
            kind = schema.field(schema.names.index(name)).type
            for part in path.split(".") if path else ():
                if pa.types.is_struct(kind) and kind.get_field_index(part) >= 0:
                    kind = kind.field(part).type
                elif _is_list(kind) and part.isdecimal():
                    kind = kind.value_type
            yield Column(name, path), kind
            break


def _is_list(kind: pa.DataType) -> bool:
    tests = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return any(test(kind) for test in tests)


def _holds_pictures(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_struct(kind):
        return any(kind.get_field_index(name) >= 0 for name in ("bytes", "path"))
    tests = (
        pa.types.is_null,
        pa.types.is_binary,
        pa.types.is_large_binary,
        pa.types.is_fixed_size_binary,
        pa.types.is_binary_view,
        pa.types.is_string,
        pa.types.is_large_string,
        pa.types.is_string_view,
    )
    return any(test(kind) for test in tests)


def group_rows(
    file: pq.ParquetFile, group: int, columns: list[str], *, at_once: int = BATCH_ROWS
) -> Iterator[dict[str, pa.Scalar]]:
    """The rows of one row group, a scalar per column, decoding a few rows at a time."""
    batches = file.iter_batches(
        batch_size=at_once, row_groups=[group], columns=columns, use_threads=False
    )
    for batch in batches:
        arrays = {name: batch.column(batch.schema.names.index(name)) for name in columns}
        for row in range(batch.num_rows):
            yield {name: array[row] for name, array in arrays.items()}


class RowReader:
    """Single values of a column, from any thread; decodes each row group once when read in order.

    Keeps the values read last, up to `cache_bytes`, and one place to go on from; decodes `at_once`
    rows together.
    """

    def __init__(self, cache_bytes: int = CACHE_BYTES, at_once: int = BATCH_ROWS) -> None:
        self._cache_bytes = cache_bytes
        self._at_once = at_once
        self._lock = threading.Lock()
        self._values: OrderedDict[tuple[bytes, str, int], tuple[object, int]] = OrderedDict()
        self._held = 0
        self._place: _Place | None = None

    def __reduce__(self) -> tuple[type["RowReader"], tuple[int, int]]:
        return RowReader, (self._cache_bytes, self._at_once)

    def value(self, path: bytes, *, column: str, row: int) -> object:
        """The value at `row`. Raises IndexError past the end, and what pyarrow raises."""
        with self._lock:
            key = (path, column, row)
            if key not in self._values:
                self._read_to(path, column, row)
            self._values.move_to_end(key)
            return self._values[key][0]

    def _read_to(self, path: bytes, column: str, row: int) -> None:
        place, self._place = self._place, None
        if place is None or not place.leads_to(path, column, row):
            if place is not None:
                place.file.close()
            place = _Place.before(path, column, row, at_once=self._at_once)
        while place.next_row <= row:
            scalars = next(place.rows, None)
            if scalars is None:
                raise IndexError(f"row {row}: the row group ends at {place.next_row}")
            self._keep((path, column, place.next_row), scalars[column].as_py())
            place.next_row += 1
        self._place = place

    def _keep(self, key: tuple[bytes, str, int], value: object) -> None:
        self._held += _num_bytes(value) - self._values.pop(key, (None, 0))[1]
        self._values[key] = (value, _num_bytes(value))
        while self._held > self._cache_bytes and len(self._values) > 1:
            self._held -= self._values.popitem(last=False)[1][1]


@dataclass(slots=True)
class _Place:
    """A row group being read: the next row, and the row after its last."""

    version: tuple[bytes, str]
    file: pq.ParquetFile
    rows: Iterator[dict[str, pa.Scalar]]
    next_row: int
    end_row: int

    def leads_to(self, path: bytes, column: str, row: int) -> bool:
        return self.version == (path, column) and self.next_row <= row < self.end_row

    @classmethod
    def before(cls, path: bytes, column: str, row: int, *, at_once: int) -> "_Place":
        file = open_parquet(path)
        starts = group_starts(file)
        if not 0 <= row < starts[-1]:
            file.close()
            raise IndexError(f"row {row} of {starts[-1]}")
        group = bisect_right(starts, row) - 1
        rows = group_rows(file, group, [column], at_once=at_once)
        return cls((path, column), file, rows, starts[group], starts[group + 1])


def _num_bytes(value: object) -> int:
    if isinstance(value, dict):
        return sum(map(_num_bytes, value.values()))
    if isinstance(value, list):
        return sum(map(_num_bytes, value))
    return len(value) + 64 if isinstance(value, bytes | str) else 64
