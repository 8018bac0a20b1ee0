import os
import random
import tracemalloc
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from diffprep_resources.sources.parquet_rows import RowReader, group_rows, open_parquet


def put(path: Path, *, num_rows: int, row_bytes: int, group: int) -> list[bytes]:
    """A table of one column, with several pages in a row group."""
    values = [os.urandom(row_bytes) for _ in range(num_rows)]
    table = pa.table({"image": values})
    pq.write_table(table, path, row_group_size=group, write_batch_size=4, use_dictionary=False)
    return values


@pytest.mark.parametrize("cache_bytes", [1, 5_000, 1 << 20])
@pytest.mark.parametrize("order", ["forward", "backward", "random"])
def test_values_are_right_in_any_order_whatever_is_kept(
    tmp_path: Path, cache_bytes: int, order: str
) -> None:
    path = os.fsencode(tmp_path / "a.parquet")
    values = put(tmp_path / "a.parquet", num_rows=50, row_bytes=500, group=20)
    rows = list(range(50))
    if order == "backward":
        rows.reverse()
    if order == "random":
        random.Random(0).shuffle(rows)
    reader = RowReader(cache_bytes)
    assert [reader.value(path, column="image", row=row) for row in rows] == [
        values[row] for row in rows
    ]


def test_a_row_past_the_end_is_an_index_error_and_the_reader_goes_on(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path / "a.parquet")
    values = put(tmp_path / "a.parquet", num_rows=5, row_bytes=10, group=5)
    reader = RowReader()
    for row in (5, -1):
        with pytest.raises(IndexError, match=f"row {row} of 5"):
            reader.value(path, column="image", row=row)
    assert reader.value(path, column="image", row=4) == values[4]


def test_one_large_row_group_is_read_a_few_rows_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    put(path, num_rows=600, row_bytes=50_000, group=600)
    arrow_before = pa.total_allocated_bytes()
    tracemalloc.start()
    reader = RowReader(1 << 20)
    most_arrow = 0
    with open_parquet(os.fsencode(path)) as file:
        for _ in group_rows(file, 0, ["image"]):
            most_arrow = max(most_arrow, pa.total_allocated_bytes() - arrow_before)
    for row in range(600):
        reader.value(os.fsencode(path), column="image", row=row)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most_arrow < 8 << 20
    assert peak < 8 << 20
