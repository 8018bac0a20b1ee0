"""Folders of clips on this machine: with a table, with captions beside them, with metadata files.

No clip is decoded here, so any bytes do.
"""

import json
import pickle
from pathlib import Path

import pytest

from diffprep_resources.errors import SettingError, SourceAccessError, SourceChangedError
from diffprep_resources.sources.base import Source, SourceSample
from diffprep_resources.sources.fields import field_keys
from diffprep_resources.sources.hub_folder import ClipFolderSource, HubFolderSource
from diffprep_resources.sources.hub_layout import HubChoice
from diffprep_resources.sources.shapes import FolderShape

ROW = {"path": "a.mp4", "resolution": {"width": 8, "height": 6}, "fps": 24.0, "cap": ["one"]}


def clips(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())


def folder_source(folder: Path, **keys: str) -> Source:
    return ClipFolderSource(str(folder), keys=field_keys(media="clips", **keys))


def read(source: Source) -> dict[str, SourceSample]:
    paths = [file.path for file in source.listing().files]
    return {sample.source_key: sample for sample in source.samples(source.stamps(paths))}


def codes(found: dict[str, SourceSample]) -> dict[str, str | None]:
    return {key: sample.reject and sample.reject.code for key, sample in found.items()}


def merged(folder: Path, *rows: object) -> None:
    (folder / "videos2caption.json").write_text(json.dumps(rows))


def test_a_merged_folder_loses_nothing_that_its_table_or_videos_hold(tmp_path: Path) -> None:
    clips(tmp_path, "videos/a.mp4", "videos/unnamed.webm", "other/b.mp4", "videos/notes.txt")
    clips(tmp_path, "videos/odd.bin")
    gone = {"path": "gone.mp4", "cap": ["two"]}
    merged(tmp_path, ROW, gone, {"cap": ["no path"]}, {"path": "../b.mp4"}, {"path": "odd.bin"})
    source = folder_source(tmp_path)
    found = read(source)
    assert codes(found) == {
        "videos/a.mp4": None,
        "videos/gone.mp4": "source_missing",
        "videos/odd.bin": None,
        "videos/unnamed.webm": None,
        "videos2caption.json::2": "unreadable_file",
        "videos2caption.json::3": "unsafe_name",
    }
    assert (found["videos/a.mp4"].caption, found["videos/a.mp4"].stated) == (["one"], ROW)
    assert found["videos/unnamed.webm"].caption is None
    assert source.listing().other_files == {".txt": 1, "clips outside videos/": 1}


def test_a_clip_that_comes_later_and_an_edited_table_change_stamps(tmp_path: Path) -> None:
    merged(tmp_path, {"path": "a.mp4", "cap": ["one"]})
    source = folder_source(tmp_path)
    (missing,) = source.stamps(["videos/a.mp4", "videos/never.mp4"])
    clips(tmp_path, "videos/a.mp4")
    (there,) = source.stamps(["videos/a.mp4"])
    merged(tmp_path, {"path": "a.mp4", "cap": ["a longer one"]})
    (edited,) = source.stamps(["videos/a.mp4"])
    assert len({missing, there, edited}) == 3
    (sample,) = source.samples([edited])
    assert sample.caption == ["a longer one"]


def test_the_recipes_own_caption_key_is_taken_of_a_table(tmp_path: Path) -> None:
    clips(tmp_path, "videos/a.mp4")
    merged(tmp_path, {**ROW, "meta": {"long": "a long caption"}})
    source = folder_source(tmp_path, caption_key="meta.long")
    assert read(source)["videos/a.mp4"].caption == "a long caption"
    stamps = list(source.field_stamps(source.stamps(["videos/a.mp4"])))
    assert {"fps", "resolution.width", "meta.long"} <= source.field_names(stamps)
    (fields,) = source.fields(stamps, ["resolution.height", "fps", "nothing"])
    assert fields.values == (6, 24.0, None)


def test_a_raw_folder_is_paired_by_line_and_read_again_when_either_file_changes(
    tmp_path: Path,
) -> None:
    clips(tmp_path, "videos/0.mp4", "videos/1.mp4")
    (tmp_path / "videos.txt").write_text("0.mp4\nvideos/1.mp4\n2.mp4\n")
    (tmp_path / "prompt.txt").write_text("zero\n\ntwo\n")
    source = folder_source(tmp_path)
    found = read(source)
    assert [(key, sample.caption) for key, sample in found.items()] == [
        ("videos/0.mp4", "zero"),
        ("videos/1.mp4", ""),
        ("videos/2.mp4", None),
    ]
    assert codes(found)["videos/2.mp4"] == "source_missing"
    before = list(source.stamps(["videos/0.mp4"]))
    (tmp_path / "videos.txt").write_text("1.mp4\n0.mp4\n2.mp4\n")
    assert list(source.stamps(["videos/0.mp4"])) != before
    assert read(pickle.loads(pickle.dumps(source)))["videos/1.mp4"].caption == "zero"


def test_clips_have_captions_beside_them_or_in_captions(tmp_path: Path) -> None:
    clips(tmp_path, "a.mp4", "deep/b.MKV", "c.mov", "photo.jpg", "script.py")
    (tmp_path / "a.txt").write_text("beside")
    (tmp_path / "deep/b.json").write_text('{"caption": "of json"}')
    source = folder_source(tmp_path)
    found = read(source)
    assert [found[key].caption for key in ("a.mp4", "c.mov", "deep/b.MKV")] == [
        *(b"beside", None, "of json")
    ]
    assert source.listing().other_files == {".jpg": 1, ".py": 1}
    assert source.files_per_part == 256


def test_captions_mirror_the_folder_of_videos(tmp_path: Path) -> None:
    clips(tmp_path, "videos/deep/a.mp4", "b.mp4")
    (tmp_path / "captions/deep").mkdir(parents=True)
    (tmp_path / "captions/deep/a.txt").write_text("mirrored")
    found = read(folder_source(tmp_path))
    assert found["videos/deep/a.mp4"].caption == b"mirrored"
    chosen = FolderShape("x", media="clips").chosen(
        ["videos/deep/a.mp4", "b.mp4", "captions/deep/a.txt"], read=str.encode
    )
    assert chosen.captions == {"videos/deep/a.mp4": "captions/deep/a.txt"}


def test_a_broken_link_and_a_gone_clip_are_told(tmp_path: Path) -> None:
    (tmp_path / "a.mp4").symlink_to(tmp_path / "nowhere")
    source = folder_source(tmp_path)
    assert codes(read(source)) == {"a.mp4": "source_missing"}
    sample = read(source)["a.mp4"]
    with (
        pytest.raises(SourceChangedError, match=r"a.mp4 \(the file is gone\)"),
        source.open_media(sample.location),
    ):
        pass


@pytest.mark.parametrize("key", ["file_name", "video", "video_file_name"])
def test_a_hub_folder_of_clips_has_its_captions_in_metadata(tmp_path: Path, key: str) -> None:
    clips(tmp_path, "train/a.mp4", "train/b.mp4")
    row = {key: "a.mp4", "text": "a cat", "image": "first/a.jpg"}
    (tmp_path / "train/metadata.jsonl").write_text(json.dumps(row) + "\n")
    keys = field_keys(media="clips")
    source = HubFolderSource(str(tmp_path), choice=HubChoice(), keys=keys)
    found = read(source)
    assert {key: sample.caption for key, sample in found.items()} == {
        "train/a.mp4": "a cat",
        "train/b.mp4": None,
    }


def test_a_merged_hub_folder_is_read_by_its_table_whatever_its_clips_are_called(
    tmp_path: Path,
) -> None:
    clips(tmp_path, "videos/test 1.mp4", "videos/a train.mp4", "latents/train-0.parquet")
    rows = [{"path": "test 1.mp4", "cap": ["one"]}, {"path": "a train.mp4", "cap": ["two"]}]
    merged(tmp_path, *rows)
    source = HubFolderSource(str(tmp_path), choice=HubChoice(), keys=field_keys(media="clips"))
    assert [sample.caption for sample in read(source).values()] == [["two"], ["one"]]
    assert source.listing().other_files == {".parquet": 1}


def test_patterns_choose_among_the_clips_of_a_table(tmp_path: Path) -> None:
    clips(tmp_path, "videos/a1.mp4", "videos/b1.mp4")
    merged(tmp_path, {"path": "a1.mp4", "cap": ["one"]}, {"path": "gone.mp4", "cap": ["two"]})
    keys, choice = field_keys(media="clips"), HubChoice(data_files="videos/a*.mp4")
    found = read(HubFolderSource(str(tmp_path), choice=choice, keys=keys))
    assert {key: sample.caption for key, sample in found.items()} == {"videos/a1.mp4": ["one"]}
    source = HubFolderSource(str(tmp_path), choice=HubChoice(split="test"), keys=keys)
    with pytest.raises(SettingError, match=r"source\.hf_split.*knows no splits"):
        source.listing()


def test_a_folder_that_is_not_there_or_holds_no_usable_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"source\.input_dir must be a folder that exists"):
        folder_source(tmp_path / "no").listing()
    (tmp_path / "videos2caption.json").write_text("{")
    with pytest.raises(SourceAccessError, match=r"videos2caption\.json is no JSON"):
        folder_source(tmp_path).listing()
