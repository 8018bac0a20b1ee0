"""What a plan says of clips: lengths, frames, bytes, batches."""

from dataclasses import asdict, replace
from pathlib import Path

import pytest

from diffprep_assets.bucket.geometry import Target
from diffprep_assets.bucket.table import BucketRow, bucket_table
from diffprep_assets.plan_report.clips import FrameSums, clip_facts
from diffprep_assets.plan_report.curation import LeftOut
from diffprep_assets.plan_report.facts import ClipFacts
from diffprep_assets.plan_report.kept_rows import kept_rows
from diffprep_assets.plan_report.left_over import fastvideo_batches
from diffprep_assets.plan_report.table_pass import TablePass
from diffprep_assets.plan_report.words import clip_sentences
from diffprep_assets.recipe.video import Video, VideoBuckets
from diffprep_assets.shard_plan.plan import Bucket, PlannedShard

FRAMES = (17, 33)


def row(number: int, *, seconds: float | None, code: str | None = None) -> BucketRow:
    """A clip of that length at 16 fps, whose pixels are half as wide as they are high."""
    found = None if seconds is None else int(seconds * 16)
    taken = max((count for count in FRAMES if count <= (found or 0)), default=17)
    seen = BucketRow(
        source_key=f"{number}.mp4",
        group=f"{number}.mp4",
        path=f"{number}.mp4",
        stamp="s",
        code=code,
        caption="c",
        caption_digest=f"{number:032x}",
        original_width=640,
        original_height=240,
        media="clip",
        duration_s=seconds,
        frames_found=found,
    )
    if code is not None:
        return seen
    return replace(
        seen,
        wanted_pts=tuple(range(taken)),
        num_frames=taken,
        **asdict(Target(80, 128, 80, 0, 0, 640, 200)),
    )


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Clips of 2, 3, ..., 9 s, of 0.5 s and 60 s that are left out, and one that is broken."""
    rows = [row(number, seconds=number) for number in range(2, 10)]
    rows += [
        row(0, seconds=0.5, code="video_too_short"),
        row(60, seconds=60, code="video_too_long"),
    ]
    rows.append(row(1, seconds=None, code="unreadable_video"))
    path = tmp_path / "p00000.parquet"
    with bucket_table(path, metadata={}) as writer:
        writer.add(rows)
    return path


def facts_of(table: Path) -> ClipFacts:
    frames = FrameSums()
    for rows in kept_rows([table], without=LeftOut()):
        frames.add(rows)
    return clip_facts([table], frames=frames, video=Video(buckets=VideoBuckets(frames=FRAMES)))


def test_lengths_are_of_all_that_opened_and_frames_of_what_is_kept(table: Path):
    facts = facts_of(table)
    assert (facts.clips, facts.p5_s, facts.median_s, facts.p95_s) == (10, 0.5, 5.0, 60.0)
    assert (facts.longest_s, facts.shortest_s, facts.limit_s) == (60.0, 17 / 16, 33 * 5 / 16)
    assert facts.frames_found == 16 * sum(range(2, 10))
    # Of the clip of 2 s, 32 frames long, 17 are taken.
    assert facts.frames_taken == 17 + 7 * 33
    assert facts.frames_lost == facts.frames_found - facts.frames_taken
    # 95% of the clips have the 8 frames of the shortest one: 5 is the count below.
    assert facts.most_fill == 5


def test_the_sentences_say_both(table: Path):
    lengths, frames = clip_sentences(facts_of(table))
    assert "10 clips opened: 5% are shorter than 0.5 s, half than 5.0 s" in lengths
    assert "Kept are 1.06 s (17 frames at 16 fps) to 10.31 s; 95% fill 5 frames" in lengths
    assert "Of 704 frames that kept clips have at 16 fps" in frames


def test_buckets_of_clips_are_told_apart_by_frames_and_none_is_distorted(table: Path):
    found = TablePass([table], samples=8, without=LeftOut())
    facts = found.sums.facts()
    assert {bucket.frames: one.samples for bucket, one in facts.items()} == {17: 1, 33: 7}
    assert [one.name for one in facts.values()][-1] == "128x80x33 in tier 80"
    # 640x200 into 128x80 squeezes stored pixels, not what a player shows.
    assert sum(one.distorted for one in facts.values()) == 0
    assert {bucket.frames for bucket in found.chosen} == {bucket.frames for bucket in facts}


def shard(number: int, samples: int, *, frames: int, skipped: int = 0) -> PlannedShard:
    bucket = Bucket(80, 128, 80, frames)
    return PlannedShard(str(number), bucket, number, "train", samples, "", "", "", skipped)


def test_fastvideo_drops_what_fills_no_batch_of_all_ranks_of_a_bucket():
    shards = [shard(0, 10, frames=17), shard(1, 7, frames=17, skipped=1), shard(2, 3, frames=33)]
    found = fastvideo_batches(shards, batch_size=2, ranks=3)
    long, short = Bucket(80, 128, 80, 33), Bucket(80, 128, 80, 17)
    assert (found.full[short], found.left_over[short]) == (6, 4)
    assert (found.full[long], found.left_over[long]) == (0, 3)
