"""What the rules say of one part's samples, each by itself: skip lists, and the filters in the
order of the recipe's schema, `where` last. The first filter that rejects a sample is its own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from diffprep_assets.curate.filters import Rejection, Rows, RuleFilters
from diffprep_assets.curate.skips import SkipIndex
from diffprep_assets.curate.where import Condition
from diffprep_assets.curate.where_values import WhereValues
from diffprep_assets.layout import Layout
from diffprep_assets.source_columns.table import read_columns
from diffprep_assets.source_columns.values import as_type
from diffprep_assets.stage_inputs import how_to_make
from diffprep_resources.errors import StageInputError
from diffprep_resources.storage.parquet_tables import readable_table

COLUMNS = [
    *("source_key", "group", "code", "image_digest"),
    *("caption", "original_width", "original_height"),
]

Rejections = dict[int, Rejection]


@dataclass(frozen=True, slots=True)
class PartRows:
    """The samples of a part that `bucket` kept, in source order, a row of each."""

    part: str
    table: pa.Table

    @property
    def keys(self) -> list[str]:
        return self.table.column("source_key").to_pylist()

    @property
    def groups(self) -> list[str]:
        return self.table.column("group").to_pylist()


def all_rows(path: Path) -> pa.Table:
    """The columns of a bucket table that rules look at, rejected rows too."""
    with readable_table(path):
        return pq.read_table(path, columns=COLUMNS)


@dataclass(frozen=True, slots=True)
class PartRules:
    """The rules of a recipe; `types` are the columns' types over all parts."""

    layout: Layout
    skips: SkipIndex
    filters: RuleFilters
    types: Mapping[str, pa.DataType]
    condition: Condition | None = None
    where: WhereValues | None = None

    def of_part(self, part: str, every: pa.Table) -> tuple[PartRows, Rejections, Rejections]:
        """The samples that `bucket` kept, and what skip lists and filters say against them, by
        place. Raises SettingError where a condition or pattern cannot be applied."""
        is_kept = every.column("code").is_null()
        rows = PartRows(part, every.filter(is_kept))
        by_list = self._skipped(every, np.flatnonzero(is_kept.to_numpy()))
        by_filter = self.filters.rejections(_filter_rows(rows.table))
        if self.where is not None and self.condition is not None:
            columns = source_values(self.layout, rows, self.condition.columns, types=self.types)
            for place, keep in enumerate(self.where.values(columns)):
                if not keep and place not in by_filter:
                    by_filter[place] = _where_rejection(self.condition, columns, place, keep)
        return rows, by_list, by_filter

    def _skipped(self, every: pa.Table, kept: np.ndarray) -> Rejections:
        names = ("source_key", "group", "image_digest")
        columns = (every.column(name).to_pylist() for name in names)
        place_of = {row: place for place, row in enumerate(kept.tolist())}
        hits = self.skips.rejections(*columns)
        return {place_of[row]: rejection for row, rejection in hits if row in place_of}


def source_values(
    layout: Layout, rows: PartRows, names: Sequence[str], *, types: Mapping[str, pa.DataType]
) -> pa.Table:
    """Columns of the source for a part's kept samples, in the types that they have over all parts.
    Raises StageInputError where the table is not of these samples."""
    table = read_columns(layout.source_columns(rows.part), *names)
    if table.column("source_key").to_pylist() != rows.keys:
        how = how_to_make(layout.dataset, "source_columns", f" --partition {rows.part}")
        raise StageInputError(f"part {rows.part}: source_columns is stale; run {how}")
    return pa.table({name: as_type(table.column(name), types[name]) for name in names})


def _filter_rows(table: pa.Table) -> Rows:
    return Rows(
        widths=table.column("original_width").to_numpy().astype(np.int64),
        heights=table.column("original_height").to_numpy().astype(np.int64),
        captions=pc.fill_null(table.column("caption"), "").to_pylist(),
    )


def _where_rejection(
    condition: Condition, columns: pa.Table, place: int, keep: bool | None
) -> Rejection:
    values = {name: columns.column(name)[place].as_py() for name in condition.columns}
    if keep is None:
        missing = [name for name, value in values.items() if value is None]
        why = f"{' and '.join(missing)} is missing" if missing else "its values give no answer"
        return Rejection("filter_null", f"{why}, for `{condition.text}`", "filters.where")
    shown = ", ".join(f"{name} is {_shown(value)}" for name, value in values.items())
    return Rejection("filter_where", f"{shown}; asked is `{condition.text}`", "filters.where")


def _shown(value: object) -> str:
    text = repr(value) if isinstance(value, str) else "missing" if value is None else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
