"""What a condition says of each sample: DuckDB over batches of the source's columns."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer
from typing import TYPE_CHECKING

import pyarrow as pa

from diffprep_assets.curate.where import Condition, locked_connection
from diffprep_resources.errors import SettingError

if TYPE_CHECKING:
    import duckdb

LIMIT_S = 60.0
ROWS = 65_536
FIELD = "curate.filters.where"


class WhereValues:
    """A condition at work on a connection of its own. Not for several threads."""

    def __init__(
        self, condition: Condition, connection: "duckdb.DuckDBPyConnection", *, limit_s: float
    ) -> None:
        self._condition = condition
        self._connection = connection
        self._limit_s = limit_s

    def values(self, columns: pa.Table) -> Iterator[bool | None]:
        """True, False, or None where a value that decides is missing, for each row of the
        condition's columns. Raises SettingError where the columns' types do not fit it, or some
        thousand rows take longer than the limit."""
        names = [f"c{number}" for number in range(len(self._condition.columns))]
        named = columns.select(list(self._condition.columns)).rename_columns(names)
        for start in range(0, max(1, len(named)), ROWS):
            yield from self._batch(named.slice(start, ROWS))

    def _batch(self, rows: pa.Table) -> list[bool | None]:
        import duckdb

        timer = Timer(self._limit_s, self._connection.interrupt)
        timer.daemon = True
        timer.start()
        try:
            self._connection.register("rows", rows)
            found = self._connection.sql(f"select {self._condition.sql} as keep from rows")
            column = found.to_arrow_table().column("keep")
        except duckdb.InterruptException as error:
            raise SettingError(
                f"{FIELD}: {len(rows):,} samples took longer than {self._limit_s:g} s; make it "
                f"simpler: {self._condition.text}"
            ) from error
        except duckdb.OutOfMemoryException as error:
            raise SettingError(
                f"{FIELD}: {len(rows):,} samples need too much memory; make it simpler: "
                f"{self._condition.text}"
            ) from error
        except duckdb.Error as error:
            raise self._misfit(rows, str(error)) from error
        finally:
            timer.cancel()
            self._connection.unregister("rows")
        if not pa.types.is_boolean(column.type):
            raise SettingError(
                f"{FIELD}: must be true or false for a sample, but is {column.type}: "
                f"{self._condition.text}; {self._types(rows)}"
            )
        return column.to_pylist()

    def _misfit(self, rows: pa.Table, message: str) -> SettingError:
        """DuckDB's words on values that do not fit, with the columns' own names."""
        first = message.partition("\n")[0].removesuffix(".")
        named = re.sub(r"\bc(\d+)\b", lambda match: self._name(int(match[1])), first)
        return SettingError(
            f"{FIELD}: {named}: {self._condition.text}; {self._types(rows)}. "
            "try_cast(... as double) reads a text as a number, and is null where it holds none"
        )

    def _name(self, number: int) -> str:
        columns = self._condition.columns
        return columns[number] if number < len(columns) else f"c{number}"

    def _types(self, rows: pa.Table) -> str:
        types = zip(self._condition.columns, rows.schema.types, strict=True)
        return "of the source, " + ", ".join(f"{name} is {kind}" for name, kind in types)


@contextmanager
def where_values(condition: Condition, *, limit_s: float = LIMIT_S) -> Iterator[WhereValues]:
    """The condition at work, until the block ends."""
    with locked_connection() as connection:
        yield WhereValues(condition, connection, limit_s=limit_s)
