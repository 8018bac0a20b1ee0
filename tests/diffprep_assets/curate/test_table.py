"""The table of verdicts."""

from pathlib import Path

from diffprep_assets.curate.table import (
    Verdict,
    iter_verdicts,
    read_head,
    read_verdicts,
    write_verdicts,
)

ROWS = [
    Verdict("b.jpg", "p00000", False, "skip_list", "listed in mine", "skip_list:mine"),
    Verdict("a.jpg", "p00001", True, group="dup:a.jpg"),
    Verdict("c.jpg", "p00001", False, "duplicate", "as a.jpg", "dedup", "dup:a.jpg"),
]


def test_verdicts_come_back_in_the_order_written_with_counts_in_the_head(tmp_path: Path) -> None:
    path = tmp_path / "curate.parquet"
    counts = write_verdicts(path, ROWS, metadata={"fingerprint": "f"})
    assert list(iter_verdicts(path)) == ROWS
    assert read_verdicts(path)["a.jpg"] == ROWS[1]
    assert read_head(path) == {
        "fingerprint": "f",
        "digest": counts.digest,
        "codes": {"duplicate": 1, "skip_list": 1},
        "rules": {"dedup": 1, "skip_list:mine": 1},
    }


def test_the_digest_and_the_bytes_are_of_the_rows(tmp_path: Path) -> None:
    first = write_verdicts(tmp_path / "a", iter(ROWS), metadata={})
    again = write_verdicts(tmp_path / "b", ROWS, metadata={})
    less = write_verdicts(tmp_path / "c", ROWS[:2], metadata={})
    assert first.digest == again.digest != less.digest
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_no_verdicts_are_a_table_too(tmp_path: Path) -> None:
    path = tmp_path / "curate.parquet"
    assert read_head(path) is None
    counts = write_verdicts(path, [], metadata={})
    assert read_verdicts(path) == {}
    assert (read_head(path) or {})["digest"] == counts.digest
