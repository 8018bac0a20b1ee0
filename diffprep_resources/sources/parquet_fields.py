"""Values of parquet columns by dotted names, without decoding the bytes beside them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from diffprep_resources.sources.fields import lookup, splits
from diffprep_resources.sources.parquet_rows import UNREADABLE, as_reject, group_starts

_ROWS = 4096
_DEEPEST = 4


@dataclass(frozen=True, slots=True)
class _Leaf:
    """What is read for a name: a whole column, or the field of a struct that `read` names by dotted
    path; `inner` leads on from the column's value."""

    column: str
    read: str
    inner: str


def row_values(
    file: pq.ParquetFile, names: Sequence[str], *, what: str
) -> Iterator[tuple[object, ...]]:
    """The values of each row, in the order of `names`; None for a name that no column has, and in
    rows that cannot be read."""
    leaves = [_leaf(file.schema_arrow, name) for name in names]
    reads = list(dict.fromkeys(leaf.read for leaf in leaves if leaf is not None))
    nothing = (None,) * len(names)
    starts = group_starts(file)
    for group in range(len(starts) - 1):
        left = starts[group + 1] - starts[group]
        if reads:
            try:
                for values in _group_values(file, group, leaves=leaves, reads=reads):
                    yield values
                    left -= 1
            except UNREADABLE as error:
                # Raises again what is the disk's.
                as_reject(error, what=what)
        for _ in range(left):
            yield nothing


def _group_values(
    file: pq.ParquetFile, group: int, *, leaves: Sequence[_Leaf | None], reads: list[str]
) -> Iterator[tuple[object, ...]]:
    batches = file.iter_batches(_ROWS, row_groups=[group], columns=reads, use_threads=False)
    for batch in batches:
        columns = {name: batch.column(name).to_pylist() for name in batch.schema.names}
        for row in range(batch.num_rows):
            yield tuple(
                None if leaf is None else lookup(columns[leaf.column][row], leaf.inner)
                for leaf in leaves
            )


def _leaf(schema: pa.Schema, name: str) -> _Leaf | None:
    """Where a name leads: the longest column name that it begins with, then into structs."""
    for column, inner in splits(name):
        if column not in schema.names:
            continue
        kind = schema.field(schema.names.index(column)).type
        read, rest = column, inner
        while rest and pa.types.is_struct(kind):
            step = next(
                ((part, left) for part, left in splits(rest) if kind.get_field_index(part) >= 0),
                None,
            )
            if step is None:
                return None
            read, rest = f"{read}.{step[0]}", step[1]
            kind = kind.field(step[0]).type
        # Bytes are no value; with a path into them they may be JSON.
        return None if _holds_bytes(kind) and not rest else _Leaf(column, read, inner)
    return None


def _holds_bytes(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return any(_holds_bytes(kind.field(place).type) for place in range(kind.num_fields))
    return "binary" in str(kind)


def column_names(schema: pa.Schema) -> set[str]:
    """The columns by name, and the fields of structs by dotted path; no bytes among them."""
    return {name for field in schema for name in _names(field.name, field.type, 0)}


def _names(name: str, kind: pa.DataType, depth: int) -> Iterator[str]:
    if pa.types.is_struct(kind) and depth < _DEEPEST:
        for place in range(kind.num_fields):
            inner = kind.field(place)
            yield from _names(f"{name}.{inner.name}", inner.type, depth + 1)
    elif not _holds_bytes(kind):
        yield name
