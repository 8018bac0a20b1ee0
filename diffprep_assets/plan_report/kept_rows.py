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
ShownRow = dict[str, Any]
"""One row, by those columns."""


@dataclass(frozen=True, slots=True)
class KeptRows:
    """Some rows of one table, without rejects. `buckets` are the distinct (tier, width, height) in
    them, int64 [n, 3]; `bucket_of` gives each row's place there."""

    batch: pa.RecordBatch
    buckets: np.ndarray
    bucket_of: np.ndarray

    def __len__(self) -> int:
        return self.batch.num_rows

    def ints(self, column: str) -> np.ndarray:
        """An integer column as int64."""
        return self.batch.column(column).to_numpy(zero_copy_only=False).astype(np.int64)

    def lengths(self, column: str) -> np.ndarray:
        """Bytes of each text in UTF-8."""
        lengths = pc.call_function("binary_length", [self.batch.column(column)])
        return lengths.to_numpy(zero_copy_only=False)

    def row(self, number: int) -> ShownRow:
        """One row as Python values."""
        return {name: self.batch.column(name)[number].as_py() for name in COLUMNS}

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
            for batch in file.iter_batches(ROWS, columns=list(COLUMNS)):
                kept = batch.filter(batch.column("code").is_null())
                if gone:
                    keys = kept.column("source_key").to_pylist()
                    kept = kept.filter(pa.array([key not in gone for key in keys], pa.bool_()))
                if kept.num_rows:
                    yield _with_buckets(kept)


def _with_buckets(batch: pa.RecordBatch) -> KeptRows:
    sizes = np.stack(
        [batch.column(name).to_numpy(zero_copy_only=False) for name in ("tier", "width", "height")],
        axis=1,
    ).astype(np.int64)
    buckets, bucket_of = np.unique(sizes, axis=0, return_inverse=True)
    return KeptRows(batch, buckets, bucket_of.reshape(-1))
