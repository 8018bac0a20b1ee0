"""Tables that are missing, cut short or rotten are told from whole ones, by name."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from diffprep_resources.storage.parquet_tables import (
    DamagedTableError,
    has_table,
    readable_table,
    table_head,
)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "table.parquet"
    rows = pa.table({"x": [f"row {number}" for number in range(99)]})
    head = {"diffprep": '{"fingerprint": "f"}'}
    pq.write_table(rows.replace_schema_metadata(head), path, compression="zstd")
    return path


def test_a_whole_table_is_there_and_tells_its_head(table: Path):
    assert has_table(table)
    assert table_head(table) == {"fingerprint": "f"}


@pytest.mark.parametrize("kept", [0, 3, 100, -1])
def test_a_table_cut_short_is_none(table: Path, kept: int):
    table.write_bytes(table.read_bytes()[:kept])
    assert not has_table(table)
    assert table_head(table) is None


def test_a_missing_table_and_one_of_somebody_else_have_no_head(table: Path):
    pq.write_table(pa.table({"x": [1]}), table)
    assert table_head(table) is None
    table.unlink()
    assert table_head(table) is None
    assert not has_table(table)


def test_whatever_byte_is_flipped_nothing_but_a_named_error_comes_out(table: Path):
    whole = table.read_bytes()
    errors: list[DamagedTableError] = []
    for place in range(len(whole)):
        data = bytearray(whole)
        data[place] ^= 0x10
        table.write_bytes(data)
        table_head(table)
        try:
            with readable_table(table):
                pq.read_table(table).to_pylist()
        except DamagedTableError as error:
            errors.append(error)
    assert len(errors) > 50
    assert {error.path for error in errors} == {table}
    assert all(str(error).startswith(f"{table} is damaged: ") for error in errors)


def test_errors_of_the_disk_stay_as_they_are(tmp_path: Path):
    with pytest.raises(FileNotFoundError), readable_table(tmp_path / "none"):
        pq.read_table(tmp_path / "none")
