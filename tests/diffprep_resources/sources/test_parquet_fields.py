"""Values of columns without the bytes beside them."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from diffprep_resources.sources.parquet_fields import column_names, row_values
from diffprep_resources.sources.parquet_rows import open_parquet


def table(path: Path) -> Path:
    rows = pa.table(
        {
            "image": [{"bytes": b"x" * 50, "path": f"{n}.png"} for n in range(5)],
            "info": ['{"score": 1}', "{}", None, "broken", '{"score": [3]}'],
            "dotted.name": [1, 2, None, 4, 5],
            "deep": [{"a": {"b": n}, "raw": b""} for n in range(5)],
        }
    )
    pq.write_table(rows, path, row_group_size=2)
    return path


def values(path: Path, *names: str) -> list[tuple]:
    with open_parquet(bytes(path)) as file:
        return list(row_values(file, names, what=path.name))


def test_names_lead_into_structs_and_json_text(tmp_path: Path) -> None:
    path = table(tmp_path / "a.parquet")
    assert values(path, "info.score", "dotted.name", "deep.a.b", "image.path") == [
        (1, 1, 0, "0.png"),
        (None, 2, 1, "1.png"),
        (None, None, 2, "2.png"),
        (None, 4, 3, "3.png"),
        ([3], 5, 4, "4.png"),
    ]


def test_bytes_and_unknown_names_are_no_values(tmp_path: Path) -> None:
    path = table(tmp_path / "a.parquet")
    assert values(path, "image", "image.bytes", "deep", "nothing", "deep.c") == [(None,) * 5] * 5
    assert column_names(pq.read_schema(path)) == {
        *("image.path", "info", "dotted.name", "deep.a.b")
    }


def test_the_bytes_of_pictures_are_not_read(tmp_path: Path) -> None:
    path = table(tmp_path / "a.parquet")
    data = bytearray(path.read_bytes())
    chunk = pq.read_metadata(path).row_group(0).column(0)
    assert chunk.path_in_schema == "image.bytes"
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    data[start : start + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
    path.write_bytes(data)
    assert values(path, "image.path")[:2] == [("0.png",), ("1.png",)]


def test_rows_that_cannot_be_read_have_no_values_and_the_others_do(tmp_path: Path) -> None:
    path = table(tmp_path / "a.parquet")
    data = bytearray(path.read_bytes())
    group = pq.read_metadata(path).row_group(1)
    chunk = next(group.column(n) for n in range(9) if group.column(n).path_in_schema == "info")
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    data[start : start + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
    path.write_bytes(data)
    found = values(path, "info.score")
    assert found == [(1,), (None,), (None,), (None,), ([3],)]
