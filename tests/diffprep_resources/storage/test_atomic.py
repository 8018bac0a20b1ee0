import errno
import os
from pathlib import Path

import pytest

from diffprep_resources.storage.atomic import (
    TEMPORARY_PREFIX,
    link_or_copy,
    remove_leftovers,
    replace_file,
    temporary_beside,
    write_bytes,
)


def test_a_file_appears_whole_in_a_folder_made_for_it(tmp_path: Path):
    path = tmp_path / "a" / "b" / "file"
    with replace_file(path) as file:
        file.write(b"half")
        file.flush()
        assert not path.exists()
        file.write(b" and half")
    assert path.read_bytes() == b"half and half"
    assert list(path.parent.iterdir()) == [path]


def test_when_the_block_raises_the_old_file_stays_and_nothing_is_left_beside_it(tmp_path: Path):
    path = tmp_path / "file"
    write_bytes(path, b"old")
    before = path.stat()

    def stop_half_way() -> None:
        with replace_file(path) as file:
            file.write(b"new")
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        stop_half_way()
    assert path.read_bytes() == b"old"
    assert path.stat().st_ino == before.st_ino
    assert list(tmp_path.iterdir()) == [path]


def test_a_replaced_file_never_changes_for_those_who_hold_it(tmp_path: Path):
    path, link = tmp_path / "file", tmp_path / "link"
    write_bytes(path, b"old")
    os.link(path, link)
    with path.open("rb") as reader:
        write_bytes(path, b"new, and longer")
        assert reader.read() == b"old"
    assert link.read_bytes() == b"old"
    assert path.read_bytes() == b"new, and longer"


def test_a_linked_file_is_the_same_file_and_takes_the_place_of_what_was_there(tmp_path: Path):
    source, target = tmp_path / "source", tmp_path / "deep" / "target"
    source.write_bytes(b"content")
    link_or_copy(source, target)
    assert target.samefile(source)
    other = tmp_path / "other"
    other.write_bytes(b"other")
    link_or_copy(other, target)
    assert target.samefile(other)
    assert source.read_bytes() == b"content"
    assert [path.name for path in target.parent.iterdir()] == ["target"]


def test_where_links_cannot_be_made_the_content_is_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(b"content" * 1000)
    link_or_copy(source, target)
    assert target.read_bytes() == source.read_bytes()
    assert not target.samefile(source)


def test_leftovers_of_a_killed_process_are_removed_and_nothing_else(tmp_path: Path):
    kept = tmp_path / "file"
    kept.write_bytes(b"kept")
    left = temporary_beside(kept)
    left.write_bytes(b"half")
    assert left.name.startswith(TEMPORARY_PREFIX)
    remove_leftovers(tmp_path)
    remove_leftovers(tmp_path / "nowhere")
    assert list(tmp_path.iterdir()) == [kept]
