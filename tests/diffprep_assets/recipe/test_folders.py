from pathlib import Path

import pytest

from diffprep_assets.recipe.folders import (
    absolute,
    fixed_folder,
    folder_or_name,
    is_remote,
    may_hold,
    overlap,
)


def test_relative_paths_are_taken_from_the_base(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", "/home/somebody")
    assert absolute("a/b", base=Path("/project")) == Path("/project/a/b")
    assert absolute("/a", base=Path("/project")) == Path("/a")
    assert absolute("~/a", base=Path("/project")) == Path("/home/somebody/a")


@pytest.mark.parametrize(
    ("pattern", "folder"),
    [
        ("/data/*.tar", "/data"),
        ("/data/a/x-*/*.tar", "/data/a"),
        ("/data/a/one.tar", "/data/a"),
        ("/data/[ab]/x.tar", "/data"),
        ("/*.tar", "/"),
    ],
)
def test_the_fixed_folder_of_a_glob(pattern: str, folder: str):
    assert fixed_folder(Path(pattern)) == Path(folder)


def test_overlap_compares_parts_of_paths_not_letters(tmp_path: Path):
    assert overlap(tmp_path / "in", tmp_path / "in_encoded") is None
    assert overlap(tmp_path / "in" / "x", tmp_path / "in") == "lies inside"
    assert overlap(tmp_path, tmp_path / "in") == "contains"
    assert overlap(tmp_path / "in", tmp_path / "." / "in") == "is the same folder as"


def test_a_folder_is_a_folder_and_a_name_stays_a_name(tmp_path: Path):
    (tmp_path / "owner" / "here").mkdir(parents=True)
    assert folder_or_name("owner/here", base=tmp_path) == str(tmp_path / "owner" / "here")
    assert folder_or_name("owner/away", base=tmp_path) == "owner/away"
    assert folder_or_name("./away", base=tmp_path) == str(tmp_path / "away")


def test_addresses_are_remote():
    assert is_remote("s3://bucket/key")
    assert is_remote("https://host/x.tar")
    assert not is_remote("/a//b")
    assert not is_remote("c:/x")


@pytest.mark.parametrize(
    ("pattern", "holds"),
    [
        ("data/*.tar", True),
        ("data/set/*.tar", True),
        ("data/set/deeper/*/x.tar", True),
        ("data/s?t/*.tar", True),
        ("data/**/*.tar", True),
        ("other/*.tar", False),
        ("data/raw-*/*.tar", False),
        ("data/set2/*.tar", False),
    ],
)
def test_whether_files_of_a_glob_may_lie_in_a_folder(tmp_path: Path, pattern: str, holds: bool):
    assert may_hold(tmp_path / pattern, tmp_path / "data" / "set") is holds
    (tmp_path / "data").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "data")
    assert may_hold(tmp_path / pattern, tmp_path / "link" / "set") is holds
