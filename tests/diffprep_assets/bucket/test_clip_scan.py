"""Clips as `bucket` sees them: rows, rejects, and other settings from the table alone."""

import os
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import xxhash

from diffprep_assets.bucket.scan import BucketRules, resized, scanned
from diffprep_assets.bucket.table import BucketRow, bucket_table, read_rows
from diffprep_assets.recipe.schema import Captions, Image
from diffprep_assets.recipe.video import Video, VideoBuckets
from diffprep_resources.sources.fields import FieldKeys
from diffprep_resources.sources.hub_folder import ClipFolderSource
from tests.cases.clip_files import clip

SMALL = VideoBuckets(sizes=((96, 64), (64, 96)), frames=(5, 17))
VIDEO = Video(buckets=SMALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clip of 24 frames, the same turned, one of 6 frames at 24 fps, one of 60 s, one cut."""
    folder = tmp_path_factory.mktemp("clips")
    whole = clip()
    clips = {
        "a": whole,
        "b": clip(rotation=90),
        "short": clip(frames=6),
        "stills": clip(frames=60, fps=Fraction(1)),
        "torn": whole[: len(whole) // 2],
        "still": clip(frames=1),
    }
    for name, data in clips.items():
        (folder / f"{name}.mp4").write_bytes(data)
        (folder / f"{name}.txt").write_text(f"the clip {name}")
    return folder


def rows_of(folder: Path, video: Video = VIDEO, known: Mapping | None = None):
    source = ClipFolderSource(str(folder), keys=FieldKeys(media="clips"))
    files = [file.path for file in source.listing().files]
    rules = BucketRules(Image(), Captions(), video)
    found = scanned(source.stamps(files), source=source, rules=rules, known=known or {})
    return {rows[0].source_key.rpartition("/")[2]: (rows[0], was_read) for rows, was_read in found}


@pytest.fixture(scope="module")
def seen(folder: Path) -> dict[str, BucketRow]:
    return {name: row for name, (row, _) in rows_of(folder).items()}


def test_a_clip_becomes_a_row_with_its_frames_and_its_crop(seen, folder: Path):
    row = seen["a.mp4"]
    assert (row.code, row.media, row.caption) == (None, "clip", "the clip a")
    assert (row.tier, row.width, row.height, row.num_frames) == (64, 96, 64, 5)
    assert (row.original_width, row.original_height, row.sar, row.fps) == (128, 96, "1", "24")
    assert (row.duration_s, row.frames_found) == (1.0, 16)
    assert row.wanted_pts is not None
    assert len(row.wanted_pts) == 5
    assert (row.crop_width, row.crop_height) == (128, 85)
    digest = xxhash.xxh3_128_hexdigest((folder / "a.mp4").read_bytes())
    assert row.image_digest == digest


def test_a_turned_clip_takes_the_upright_size(seen):
    row = seen["b.mp4"]
    assert (row.original_width, row.original_height) == (96, 128)
    assert (row.width, row.height, row.tier) == (64, 96, 64)


def test_what_cannot_be_used_is_a_reject_with_its_numbers(seen):
    assert seen["still.mp4"].code == "video_too_short"
    assert "1 frame" in seen["still.mp4"].message
    assert seen["stills.mp4"].code == "video_too_long"
    assert "60.00 s, limit 5.31 s" in seen["stills.mp4"].message
    assert seen["torn.mp4"].code == "unreadable_video"
    assert seen["short.mp4"].code == "video_too_short"


def test_a_clip_of_the_wrong_length_tells_how_long_it_is(seen):
    assert (seen["stills.mp4"].duration_s, seen["stills.mp4"].frames_found) == (60.0, 960)
    assert seen["short.mp4"].frames_found == 4
    assert seen["torn.mp4"].duration_s is None


def test_rows_come_back_from_the_table_as_they_were(seen, tmp_path: Path):
    with bucket_table(tmp_path / "p.parquet", metadata={}) as table:
        table.add(seen.values())
    assert list(read_rows(tmp_path / "p.parquet")) == list(seen.values())


def test_a_table_from_before_there_were_clips_is_read_on(tmp_path: Path):
    row = BucketRow(source_key="a", group="a", path="a", stamp="s", tier=64, width=64, height=64)
    path = tmp_path / "p.parquet"
    with bucket_table(path, metadata={}) as table:
        table.add([row])
    older = pq.read_table(path)
    clips = ("media", "num_frames", "wanted_pts", "sar", "fps", "duration_s", "frames_found")
    pq.write_table(older.drop_columns(list(clips)), path)
    assert list(read_rows(path)) == [row]


def test_other_sizes_and_shorter_counts_come_from_the_table(seen, folder: Path):
    frames = VideoBuckets(sizes=((64, 64),), frames=(5,))
    again = resized([seen["a.mp4"]], BucketRules(Image(), Captions(), Video(buckets=frames)))
    opened = rows_of(folder, Video(buckets=frames))["a.mp4"][0]
    assert again == [opened]
    assert (opened.width, opened.height, opened.crop_width) == (64, 64, 96)


def test_longer_counts_and_rejects_open_the_file_again(seen):
    longer = BucketRules(Image(), Captions(), Video(buckets=VideoBuckets(frames=(9,))))
    assert resized([seen["a.mp4"]], longer) is None
    same = BucketRules(Image(), Captions(), VIDEO)
    assert resized([seen["a.mp4"]], same) == [seen["a.mp4"]]
    assert resized([seen["a.mp4"], seen["short.mp4"]], same) is None


def test_a_known_file_is_not_opened(seen, folder: Path):
    known = {row.path: [row] for row in seen.values()}
    assert {was_read for _, was_read in rows_of(folder, known=known).values()} == {False}
    moved = {row.path: [replace(row, stamp="other")] for row in seen.values()}
    assert {was_read for _, was_read in rows_of(folder, known=moved).values()} == {True}


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_a_file_that_may_not_be_read_is_tried_again(tmp_path: Path):
    (tmp_path / "a.mp4").write_bytes(clip(frames=2))
    (tmp_path / "a.mp4").chmod(0)
    row, _ = rows_of(tmp_path)["a.mp4"]
    assert (row.code, row.transient) == ("unreadable_file", True)


def test_a_link_that_leads_nowhere_is_missing(tmp_path: Path):
    (tmp_path / "a.mp4").symlink_to(tmp_path / "gone.mp4")
    (tmp_path / "b.mp4").write_bytes(clip(frames=2))
    row, _ = rows_of(tmp_path)["a.mp4"]
    assert (row.code, row.transient) == ("source_missing", True)
