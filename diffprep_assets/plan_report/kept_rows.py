"""The rows of the bucket tables that are in the dataset, some thousand at a time."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import xxhash

from diffprep_assets.plan_report.curation import LeftOut

ROWS = 8192
COLUMNS = (
    *("source_key", "code", "caption", "caption_digest", "original_width", "original_height"),
    *("tier", "width", "height", "crop_left", "crop_top", "crop_width", "crop_height"),
    *("path", "offset", "length", "row"),
)
# Those that a table from before there were clips has not.
CLIP_COLUMNS = {
    "num_frames": pa.int32(),
    "wanted_pts": pa.list_(pa.int64()),
    "duration_s": pa.float64(),
    "frames_found": pa.int32(),
}
ShownRow = dict[str, Any]
"""One row, by all those columns."""


@dataclass(frozen=True, slots=True)
class KeptRows:
    """Some rows of one table, without rejects. `buckets` are the distinct (tier, width, height,
    frames) in them, int64 [n, 4]; `bucket_of` gives each row's place there."""

    batch: pa.RecordBatch
    buckets: np.ndarray
    bucket_of: np.ndarray

    def __len__(self) -> int:
        return self.batch.num_rows

    def ints(self, column: str) -> np.ndarray:
        """An integer column as int64, 0 where there is no value."""
        return _ints(self.batch, column)

    def floats(self, column: str) -> np.ndarray:
        """A column of numbers as float64, NaN where there is no value."""
        return self.batch.column(column).to_numpy(zero_copy_only=False).astype(np.float64)

    def lengths(self, column: str) -> np.ndarray:
        """Bytes of each text in UTF-8."""
        lengths = pc.call_function("binary_length", [self.batch.column(column)])
        return lengths.to_numpy(zero_copy_only=False)

    def row(self, number: int) -> ShownRow:
        """One row as Python values."""
        return {name: self.batch.column(name)[number].as_py() for name in (*COLUMNS, *CLIP_COLUMNS)}

    def hashes(self, seed: int) -> np.ndarray:
        """uint64 per row, from its source key: the same key has the same in every plan."""
        keys = self.batch.column("source_key").to_pylist()
        return np.array([xxhash.xxh3_64_intdigest(key.encode(), seed) for key in keys], np.uint64)


def kept_rows(tables: Iterable[Path], *, without: LeftOut) -> Iterator[KeptRows]:
    """The rows that `bucket` kept, less those left out later, over all tables, in bounded memory.
    A table is named for its part."""
    for path in tables:
        gone = without.of_part(path.stem)
        with pq.ParquetFile(path) as file:
            columns = [*COLUMNS, *(CLIP_COLUMNS.keys() & set(file.schema_arrow.names))]
            for found in file.iter_batches(ROWS, columns=columns):
                batch = _with_clip_columns(found)
                kept = batch.filter(batch.column("code").is_null())
                if gone:
                    keys = kept.column("source_key").to_pylist()
                    kept = kept.filter(pa.array([key not in gone for key in keys], pa.bool_()))
                if kept.num_rows:
                    yield _with_buckets(kept)


def _with_buckets(batch: pa.RecordBatch) -> KeptRows:
    names = ("tier", "width", "height", "num_frames")
    sizes = np.stack([_ints(batch, name) for name in names], axis=1)
    buckets, bucket_of = np.unique(sizes, axis=0, return_inverse=True)
    return KeptRows(batch, buckets, bucket_of.reshape(-1))


def _with_clip_columns(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with all columns, those of clips empty in an older table."""
    for name, kind in CLIP_COLUMNS.items():
        if name not in batch.schema.names:
            batch = batch.append_column(name, pa.nulls(batch.num_rows, kind))
    return batch


def _ints(batch: pa.RecordBatch, column: str) -> np.ndarray:
    values = pc.fill_null(batch.column(column), 0)
    return values.to_numpy(zero_copy_only=False).astype(np.int64)
