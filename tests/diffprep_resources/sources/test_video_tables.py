import json

import pytest

from diffprep_resources.errors import SourceAccessError
from diffprep_resources.sources.video_tables import (
    VideoEntry,
    entries_by_path,
    merged_entries,
    raw_entries,
    table_among,
)


def merged(content: object) -> list[VideoEntry]:
    return merged_entries(json.dumps(content).encode())


def raw(*, videos: str, prompts: str) -> list[VideoEntry]:
    return raw_entries(videos.encode(), prompts.encode())


def test_a_merged_table_gives_paths_captions_and_what_is_stated() -> None:
    row = {"path": "deep/a.mp4", "fps": 24.0, "num_frames": 192, "cap": ["one", "two"]}
    entries = merged([row, {"path": "b.mp4", "caption": "three"}, {"path": "c\\d.mp4"}])
    assert [entry.path for entry in entries] == [
        *("videos/deep/a.mp4", "videos/b.mp4", "videos/c/d.mp4")
    ]
    assert [entry.caption for entry in entries] == [["one", "two"], "three", None]
    assert entries[0].stated == row


def test_entries_without_a_safe_path_to_a_clip_are_rejects_of_their_own() -> None:
    rows = [{"path": "../../x.mp4"}, {"cap": ["a"]}, 3, {"path": "/etc/x"}, {"path": "x.tar"}]
    entries = merged([*rows, {"path": "..\\x.mp4"}])
    codes = [entry.reject.code for entry in entries if entry.reject]
    assert codes == [
        *("unsafe_name", "unreadable_file", "unreadable_file"),
        *("unsafe_name", "unreadable_video", "unsafe_name"),
    ]
    assert len({entry.path for entry in entries}) == len(entries)


@pytest.mark.parametrize(
    ("data", "words"), [(b"{", "no JSON"), (b'{"a": 1}', "must be a list of objects.*got dict")]
)
def test_a_table_of_another_form_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(SourceAccessError, match=words):
        merged_entries(data)


def test_entries_that_name_one_clip_are_one_with_all_captions() -> None:
    rows = [
        {"path": "e\u0301.mp4", "cap": ["one"], "fps": 24},
        {"path": "./\u00e9.mp4", "cap": "two"},
        {"path": "\u00e9.mp4"},
    ]
    (entry,) = entries_by_path(merged(rows)).values()
    assert (entry.caption, entry.stated) == (["one", "two"], rows[0])


def test_lines_are_paired_by_number_with_and_without_the_folder() -> None:
    entries = raw(
        videos="\ufeff0.mp4\r\nvideos/1.mp4\n\n./videos\\2.mp4\n\n",
        prompts="zero\r\n  one \n\ntwo\n",
    )
    assert [(entry.path, entry.caption) for entry in entries] == [
        ("videos/0.mp4", "zero"),
        ("videos/1.mp4", "one"),
        ("videos/2.mp4", "two"),
    ]


def test_only_what_ends_a_line_in_a_file_shifts_pairs() -> None:
    entries = raw(videos="0.mp4\n1.mp4\n", prompts="a\u2028b\x0bc\nd\n")
    assert [entry.caption for entry in entries] == ["a\u2028b\x0bc", "d"]


@pytest.mark.parametrize(
    ("videos", "prompts", "words"),
    [
        ("0.mp4\n1.mp4\n", "zero", "2 lines, prompt.txt 1"),
        ("0.mp4\n", "zero\none\n", "1 lines, prompt.txt 2"),
        ("0.mp4\n\n2.mp4\n", "zero\none\ntwo\n", "line 2 of videos.txt is blank"),
    ],
)
def test_pairs_that_would_shift_are_refused(videos: str, prompts: str, words: str) -> None:
    with pytest.raises(SourceAccessError, match=words):
        raw(videos=videos, prompts=prompts)


@pytest.mark.parametrize(("prompts", "texts"), [("\none", ["", "one"]), ("zero\n\n", ["zero", ""])])
def test_a_clip_without_a_prompt_stays_to_be_rejected_for_that(
    prompts: str, texts: list[str]
) -> None:
    assert [entry.caption for entry in raw(videos="0.mp4\n1.mp4\n", prompts=prompts)] == texts


@pytest.mark.parametrize(
    ("paths", "table"),
    [
        (["videos.txt", "prompt.txt", "videos2caption.json"], "videos2caption.json"),
        (["videos.txt", "prompt.txt", "videos/0.mp4"], "prompt.txt"),
        (["videos.txt", "deep/prompt.txt", "deep/videos2caption.json"], None),
    ],
)
def test_a_folder_is_read_by_the_table_at_its_root(paths: list[str], table: str | None) -> None:
    assert table_among(paths) == table
