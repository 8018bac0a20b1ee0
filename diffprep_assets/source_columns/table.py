"""The table of one part's source fields: one row per kept sample, in the bucket table's order.

Beside the source_key stand the columns asked for, under the names that the recipe gives them. Two
more columns let a changed part be made anew without reading unchanged files.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from diffprep_assets.source_columns.values import Plain, column_of
from diffprep_resources.sources.base import PlainText
from diffprep_resources.storage.atomic import replace_file
from diffprep_resources.storage.parquet_tables import readable_table, table_head

ROWS_PER_GROUP = 16_384
# In brackets, so that they are no fields of a source.
OWN = pa.schema(
    [
        pa.field("source_key", pa.string(), nullable=False),
        # Digest of the size and times of the file that holds the fields.
        pa.field("(stamp)", pa.string(), nullable=False),
        # The values as a JSON list; one that its file gives no type as a list of its text.
        pa.field("(values)", pa.string(), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True)
class FieldRow:
    """The fields of one sample, in the order of the table's names."""

    source_key: str
    stamp: str
    values: tuple[Plain, ...]


def write_columns(
    path: Path, rows: Sequence[FieldRow], *, names: Sequence[str], metadata: Mapping[str, Any]
) -> None:
    """The table at `path`, replaced as a whole; the type of a column is told by its values."""
    head = json.dumps({**metadata, "names": list(names)}, sort_keys=True)
    columns = [
        pa.array([row.source_key for row in rows], pa.string()),
        pa.array([row.stamp for row in rows], pa.string()),
        pa.array([_written(row.values) for row in rows], pa.string()),
        *(column_of([row.values[place] for row in rows]) for place in range(len(names))),
    ]
    fields = [
        pa.field(name, column.type) for name, column in zip(names, columns[len(OWN) :], strict=True)
    ]
    schema = pa.schema([*OWN, *fields], {"diffprep": head})
    with replace_file(path) as file:
        table = pa.Table.from_arrays(columns, schema=schema)
        pq.write_table(table, file, compression="zstd", row_group_size=ROWS_PER_GROUP)


def read_head(path: Path) -> dict[str, Any] | None:
    """`fingerprint`, `settings`, `bucket`, `names` and `known_names` of a whole table; None when
    there is none."""
    return table_head(path)


def column_types(path: Path) -> dict[str, pa.DataType]:
    """The type of each column asked for, null where no sample of the part has the field."""
    with readable_table(path):
        schema = pq.read_schema(path)
    return {field.name: field.type for field in list(schema)[len(OWN) :]}


def read_columns(path: Path, *names: str) -> pa.Table:
    """`source_key` and the columns of these names, for every kept sample of the part."""
    with readable_table(path):
        return pq.read_table(path, columns=["source_key", *names]).select(["source_key", *names])


def read_field_rows(path: Path) -> list[FieldRow]:
    """The rows as they were written."""
    with readable_table(path):
        table = pq.read_table(path, columns=OWN.names)
    return [
        FieldRow(row["source_key"], row["(stamp)"], _read(row["(values)"]))
        for row in table.to_pylist()
    ]


def _written(values: tuple[Plain, ...]) -> str:
    return json.dumps(
        [[str(value)] if isinstance(value, PlainText) else value for value in values],
        ensure_ascii=False,
    )


def _read(text: str) -> tuple[Plain, ...]:
    values = json.loads(text)
    return tuple(PlainText(value[0]) if isinstance(value, list) else value for value in values)
