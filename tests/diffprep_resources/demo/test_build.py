from pathlib import Path

import pytest

from diffprep_resources.demo import build
from diffprep_resources.demo.build import MARKER, build_demo
from diffprep_resources.errors import SettingError


def stamps(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def test_a_demo_is_made_once_and_edits_are_left_alone(tmp_path: Path) -> None:
    first = build_demo(tmp_path / "demo", count=4)
    assert (first.pictures_made, first.encoders_made) == (True, True)
    assert len(list((first.pictures / "images").iterdir())) == 4
    assert (first.encoders / "model_index.json").is_file()
    (first.pictures / "images" / "mine.jpg").write_bytes(b"edited")
    before = stamps(tmp_path)
    again = build_demo(tmp_path / "demo", count=4)
    assert (again.pictures_made, again.encoders_made) == (False, False)
    assert stamps(tmp_path) == before


def test_other_numbers_and_another_version_are_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_demo(tmp_path, count=3)
    more = build_demo(tmp_path, count=5)
    assert (more.pictures_made, more.encoders_made) == (True, False)
    assert len(list((more.pictures / "images").iterdir())) == 5
    monkeypatch.setattr(build, "DEMO_VERSION", build.DEMO_VERSION + 1)
    newer = build_demo(tmp_path, count=5)
    assert (newer.pictures_made, newer.encoders_made) == (True, True)


def test_a_folder_of_someone_elses_files_is_refused_and_kept(tmp_path: Path) -> None:
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "holiday.jpg").write_bytes(b"mine")
    with pytest.raises(SettingError, match="did not make"):
        build_demo(tmp_path, count=2)
    assert (tmp_path / "pictures" / "holiday.jpg").read_bytes() == b"mine"


def test_a_failed_build_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(folder: Path, **_: int) -> None:
        folder.mkdir()
        raise OSError("disk full")

    monkeypatch.setattr(build, "draw_pictures", fail)
    with pytest.raises(OSError, match="disk full"):
        build_demo(tmp_path, count=2)
    assert list(tmp_path.iterdir()) == []


def test_the_marker_is_hidden(tmp_path: Path) -> None:
    made = build_demo(tmp_path, count=2)
    for folder in (made.pictures, made.encoders):
        assert (folder / MARKER).is_file()
    assert MARKER.startswith(".")
