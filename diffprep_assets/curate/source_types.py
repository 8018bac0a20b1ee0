"""The type that each column of the source has over all parts, and columns that nothing has."""

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from diffprep_assets.layout import Layout
from diffprep_assets.recipe.problems import nearest
from diffprep_assets.source_columns.table import column_types, read_head
from diffprep_assets.source_columns.values import common_type
from diffprep_resources.errors import SettingError

SHOWN = 30


def source_types(
    layout: Layout, parts: Sequence[str], *, asked_by: Mapping[str, Sequence[str]]
) -> dict[str, pa.DataType]:
    """The type of each column that the recipe names (`asked_by`: its keys that do), over all parts:
    floats for whole numbers and floats, texts for all other mixtures.

    Raises SettingError for a column that no kept sample has, naming the nearest that there is.
    """
    kinds: dict[str, list[pa.DataType]] = {name: [] for name in asked_by}
    num_rows = 0
    for part in parts:
        path = layout.source_columns(part)
        num_rows += pq.read_metadata(path).num_rows
        for name, kind in column_types(path).items():
            kinds[name].append(kind)
    types = {name: common_type(found) for name, found in kinds.items()}
    for name, kind in types.items():
        if pa.types.is_null(kind) and num_rows:
            raise _unknown(name, asked_by[name], _known_names(layout, parts))
    return types


def _known_names(layout: Layout, parts: Sequence[str]) -> set[str]:
    heads = (read_head(layout.source_columns(part)) for part in parts)
    return {name for head in heads if head for name in head["known_names"]}


def _unknown(name: str, keys: Iterable[str], known: set[str]) -> SettingError:
    like = nearest(name, known)
    names = sorted(known)
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    there = f"there are {', '.join(names[:SHOWN])}{more}" if names else "it has no fields at all"
    return SettingError(
        f"{' and '.join(keys)}: no sample of the source has a field {name}"
        f"{f'; did you mean {like}?' if like else ''}; {there}"
    )
