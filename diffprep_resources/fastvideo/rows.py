"""Writes FastVideo's parquet files, one row at a time."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from diffprep_resources.encoders.base import Workload
from diffprep_resources.fastvideo.schema import (
    DTYPE,
    MAY_BE_EMPTY,
    fastvideo_schema,
    tensor_names,
)
from diffprep_resources.storage.atomic import replace_file
from diffprep_resources.storage.parquet_tables import readable_table


@dataclass(frozen=True, slots=True)
class FastVideoRow:
    """One sample. Sizes, frames and rate are those of the encoded clip.

    `tensors`, float32: vae_latent [C, t, h, w] raw, text_embedding [L, D] cut at its own tokens;
    for i2v also first_frame_latent [C, t, h, w] normalised, clip_feature [N, D], and pil_image
    [3, H, W] from 0 to 255, the latter two None where a dataset has none.
    """

    id: str
    file_name: str
    caption: str
    width: int
    height: int
    num_frames: int
    fps: float
    tensors: Mapping[str, np.ndarray | None]


def write_rows(path: Path, rows: Iterable[FastVideoRow], *, workload: Workload) -> int:
    """A whole file at `path`, durable, holding the rows in order; how many they are.

    One row is in memory at a time, and one is a row group: FastVideo's reader decodes a whole
    group to get one row (eight real rows in one: 1.44 s a row, alone: 0.06 s). Without dictionary
    and statistics, which would be made of the tensors' bytes. Raises ValueError for a tensor that
    FastVideo would misread.
    """
    schema = fastvideo_schema(workload)
    count = 0
    with replace_file(path) as file, _writer(file, schema) as writer:
        for row in rows:
            table = pa.Table.from_pylist([_columns(row, workload=workload)], schema=schema)
            writer.write_table(table, row_group_size=1)
            count += 1
    return count


def copy_rows(source: Path, target: Path, *, without: Collection[str], workload: Workload) -> int:
    """A whole file at `target`, durable, with the rows of `source` but those with an id in
    `without`, as `write_rows` would write them; how many they are. A row in memory at a time.
    Raises DamagedTableError."""
    schema, count = fastvideo_schema(workload), 0
    with (
        readable_table(source),
        pq.ParquetFile(source) as read,
        replace_file(target) as file,
        _writer(file, schema) as writer,
    ):
        for group in range(read.metadata.num_row_groups):
            (row_id,) = read.read_row_group(group, columns=["id"]).column("id").to_pylist()
            if row_id not in without:
                row = read.read_row_group(group).cast(schema)
                writer.write_table(row, row_group_size=1)
                count += 1
    return count


def _writer(file: BinaryIO, schema: pa.Schema) -> pq.ParquetWriter:
    return pq.ParquetWriter(
        file, schema, compression="zstd", use_dictionary=False, write_statistics=False
    )


def _columns(row: FastVideoRow, *, workload: Workload) -> dict[str, Any]:
    names = tensor_names(workload)
    if set(row.tensors) != set(names):
        raise ValueError(f"row {row.id}: tensors must be {names}, got {tuple(row.tensors)}")
    columns: dict[str, Any] = {
        "id": row.id,
        "file_name": row.file_name,
        "caption": row.caption,
        "media_type": "video",
        "width": row.width,
        "height": row.height,
        "num_frames": row.num_frames,
        "duration_sec": row.num_frames / row.fps,
        "fps": row.fps,
    }
    for name in names:
        columns |= _tensor_columns(name, row.tensors[name], row_id=row.id)
    return columns


def _tensor_columns(name: str, tensor: np.ndarray | None, *, row_id: str) -> dict[str, Any]:
    if tensor is None:
        if name not in MAY_BE_EMPTY:
            raise ValueError(f"row {row_id}: {name} must not be empty")
        return {f"{name}_bytes": b"", f"{name}_shape": [], f"{name}_dtype": ""}
    if tensor.dtype != np.dtype("<f4") or tensor.size == 0:
        raise ValueError(
            f"row {row_id}: {name} must be {DTYPE} with values, got {tensor.dtype} {tensor.shape}"
        )
    return {
        f"{name}_bytes": tensor.tobytes(),
        f"{name}_shape": list(tensor.shape),
        f"{name}_dtype": DTYPE,
    }
