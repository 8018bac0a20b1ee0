"""Reads FastVideo's parquet files row by row, and says what a trainer would stumble over."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from diffprep_resources.encoders.base import Workload
from diffprep_resources.fastvideo.rows import FastVideoRow
from diffprep_resources.fastvideo.schema import (
    DTYPE,
    MAY_BE_EMPTY,
    fastvideo_schema,
    tensor_names,
)
from diffprep_resources.fastvideo.shapes import TensorShapes
from diffprep_resources.storage.parquet_tables import readable_table

ITEM_BYTES = 4


def read_rows(path: Path, *, workload: Workload) -> Iterator[FastVideoRow]:
    """The rows in order, one in memory. Raises DamagedTableError, and ValueError where a tensor's
    bytes are not of its shape."""
    for values in row_values(path):
        yield _row(values, workload)


def read_row(path: Path, *, number: int, workload: Workload) -> FastVideoRow:
    """One row of a file in which every row is a group. Raises as `read_rows` does, and IndexError
    where there is no such row."""
    with readable_table(path), pq.ParquetFile(path) as file:
        if not 0 <= number < file.metadata.num_row_groups:
            raise IndexError(
                f"{path.name} has {file.metadata.num_row_groups} rows, no row {number}"
            )
        (values,) = file.read_row_group(number).to_pylist()
    return _row(values, workload)


def num_rows(path: Path) -> int:
    """How many rows a file has that `read_row` can read. Raises DamagedTableError."""
    with readable_table(path), pq.ParquetFile(path) as file:
        return file.metadata.num_row_groups


def problems_in(path: Path, *, workload: Workload, shapes: TensorShapes) -> Iterator[str]:
    """One sentence for each fault: other columns, several rows a group, bytes that are not of
    their shape, another shape than the encoders', values that are not finite."""
    for sentence in file_problems(path, workload=workload):
        yield f"{path.name}: {sentence}"
        if sentence.startswith("its columns"):
            return
    for number, values in enumerate(row_values(path)):
        for sentence in row_problems(values, workload=workload, shapes=shapes):
            yield f"{path.name}: row {number} ({values['id']}): {sentence}"


def file_problems(path: Path, *, workload: Workload) -> Iterator[str]:
    """What is wrong with a file as a whole. Raises DamagedTableError."""
    with readable_table(path), pq.ParquetFile(path) as file:
        if not file.schema_arrow.equals(fastvideo_schema(workload)):
            yield f"its columns are not FastVideo's for {workload}"
        elif file.metadata.num_row_groups != file.metadata.num_rows:
            yield (
                f"{file.metadata.num_rows} rows in {file.metadata.num_row_groups} row groups; one "
                "a group is read twenty times faster"
            )


def row_problems(
    values: dict[str, Any], *, workload: Workload, shapes: TensorShapes
) -> Iterator[str]:
    """What is wrong with the tensors of one row."""
    for name in tensor_names(workload):
        fault = _fault(values, name, wanted=shapes[name])
        if fault is not None:
            yield f"{name} {fault}"


def row_values(path: Path) -> Iterator[dict[str, Any]]:
    """The columns of each row by name, one row in memory. Raises DamagedTableError."""
    with readable_table(path), pq.ParquetFile(path) as file:
        for group in range(file.metadata.num_row_groups):
            yield from file.read_row_group(group).to_pylist()


def _row(values: dict[str, Any], workload: Workload) -> FastVideoRow:
    plain = ("id", "file_name", "caption", "width", "height", "num_frames", "fps")
    return FastVideoRow(
        **{name: values[name] for name in plain},
        tensors={name: _tensor(values, name) for name in tensor_names(workload)},
    )


def _tensor(values: dict[str, Any], name: str) -> np.ndarray | None:
    data, shape = values[f"{name}_bytes"], values[f"{name}_shape"]
    if not data and name in MAY_BE_EMPTY:
        return None
    return np.frombuffer(data, "<f4").reshape(shape)


def _fault(values: dict[str, Any], name: str, *, wanted: tuple[int, ...] | None) -> str | None:
    data, shape = values[f"{name}_bytes"] or b"", tuple(values[f"{name}_shape"] or ())
    if wanted is None:
        return None if not data and not shape else "must be empty, as in the other rows"
    if values[f"{name}_dtype"] != DTYPE:
        return f"must be {DTYPE}, got {values[f'{name}_dtype']!r}"
    if len(data) != ITEM_BYTES * math.prod(shape):
        return f"has {len(data)} bytes for shape {shape}"
    if not _fits(name, shape, wanted):
        return f"must have shape {wanted}, got {shape}"
    if not np.isfinite(np.frombuffer(data, "<f4")).all():
        return "has values that are not finite"
    return None


def _fits(name: str, shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """A text embedding has one token at least; an empty one breaks a trainer's batch."""
    if name != "text_embedding":
        return shape == wanted
    return len(shape) == 2 and 1 <= shape[0] <= wanted[0] and shape[1] == wanted[1]
