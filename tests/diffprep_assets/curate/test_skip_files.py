"""Skip list files as people write them."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from diffprep_assets.curate.skip_files import (
    STORED,
    SkipEntry,
    read_skip_list,
    write_stored_list,
)
from diffprep_resources.errors import SettingError

DIGEST = "0123456789ABCDEF0123456789abcdef"


def entries(path: Path) -> list[tuple[str, str]]:
    return [(entry.entry, entry.kind) for entry in read_skip_list(path).entries]


def test_a_text_file_holds_keys_ids_and_digests_with_comments_and_blank_lines(
    tmp_path: Path,
) -> None:
    path = tmp_path / "bad.txt"
    text = f"\ufeff# mine\r\na b#1.jpg\r\n\r\n  42\n0000000043\n{DIGEST}\n42\nx.tar::#2\n  # more\n"
    path.write_bytes(text.encode())
    assert entries(path) == [
        ("a b#1.jpg", "source_key"),
        ("0000000042", "sample_id"),
        ("0000000043", "sample_id"),
        (DIGEST.lower(), "digest"),
        ("x.tar::#2", "source_key"),
    ]


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (
            {"source_key": ["1", "b.jpg"], "x": [0, 0]},
            [("1", "source_key"), ("b.jpg", "source_key")],
        ),
        ({"x": [0, 0], "sample_id": [7, None]}, [("0000000007", "sample_id")]),
        ({"image_digest": [DIGEST, DIGEST]}, [(DIGEST.lower(), "digest")]),
        ({"digest": [DIGEST], "y": [1.0]}, [(DIGEST.lower(), "digest")]),
        ({"whatever": ["a.jpg", "12"]}, [("a.jpg", "source_key"), ("0000000012", "sample_id")]),
    ],
)
def test_a_parquet_file_has_a_known_column_or_only_one(
    tmp_path: Path, columns: dict[str, list], expected: list[tuple[str, str]]
) -> None:
    path = tmp_path / "bad.parquet"
    pq.write_table(pa.table(columns), path)
    assert entries(path) == expected


def test_a_stored_list_comes_back_with_its_reasons_whatever_the_order(tmp_path: Path) -> None:
    stored = [
        SkipEntry("b.jpg", "source_key", "ugly"),
        SkipEntry("0000000001", "sample_id"),
        SkipEntry("12", "source_key"),
    ]
    write_stored_list(tmp_path / "a.parquet", stored)
    write_stored_list(tmp_path / "b.parquet", reversed(stored))
    first, second = (read_skip_list(tmp_path / f"{name}.parquet") for name in "ab")
    assert set(first.entries) == set(stored)
    assert first == second
    assert pq.read_schema(tmp_path / "a.parquet").names == STORED.names


def test_the_digest_follows_the_bytes(tmp_path: Path) -> None:
    path = tmp_path / "bad.txt"
    path.write_text("a.jpg\n")
    before = read_skip_list(path).digest
    path.write_text("b.jpg\n")
    assert read_skip_list(path).digest != before


def test_what_is_no_list_is_refused_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "bad.txt"
    with pytest.raises(SettingError, match=r"bad\.txt: cannot be read.*project's folder"):
        read_skip_list(path)
    path.write_bytes(b"a.jpg\n\xff\n")
    with pytest.raises(SettingError, match="line 2: not UTF-8"):
        read_skip_list(path)
    path.write_bytes(b"a" * 20_000)
    with pytest.raises(SettingError, match="line 1: a line holds one"):
        read_skip_list(path)
    table = tmp_path / "bad.parquet"
    table.write_bytes(b"PAR1 and nothing else")
    with pytest.raises(SettingError, match="not a parquet file"):
        read_skip_list(table)
    for columns, words in (
        ({"x": ["a"], "y": ["b"]}, "has the columns"),
        ({"only": [1.5]}, "column only is double"),
        ({"sample_id": ["a.jpg"]}, "'a.jpg', which is no number"),
        ({"digest": ["a.jpg"]}, "which is no digest"),
    ):
        pq.write_table(pa.table(columns), table)
        with pytest.raises(SettingError, match=words):
            read_skip_list(table)
