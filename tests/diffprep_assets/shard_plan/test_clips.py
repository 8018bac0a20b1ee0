"""Clips in the plan: their buckets, their frames, and what pictures keep."""

from fractions import Fraction
from pathlib import Path

import pyarrow.parquet as pq
import xxhash

from diffprep_assets.shard_plan.plan import (
    EMPTY_PLAN,
    Bucket,
    Candidate,
    ClipPlan,
    Plan,
    PlanSettings,
    planned_shards,
)
from diffprep_assets.shard_plan.planning import updated_plan
from diffprep_assets.shard_plan.table import (
    read_plan,
    read_shards,
    samples_of_shard,
    write_plan,
    write_shards,
)

SHARES = {"train": Fraction(1), "val": Fraction(0), "test": Fraction(0)}
SETTINGS = PlanSettings("a", {480: 4}, None, SHARES, 0)
LONG = Bucket(480, 832, 480, 77)


def clip(
    key: str, *, bucket: Bucket = LONG, pts: tuple[int, ...] | None = (0, 512, 1024)
) -> Candidate:
    plan = None if pts is None else ClipPlan(pts)
    return Candidate(key, key, "p00000", "d", "c", bucket, (0, 0, 9, 9), clip=plan)


def planned(*samples: Candidate, old: Plan = EMPTY_PLAN) -> Plan:
    return updated_plan(old, samples, SETTINGS)


def test_a_bucket_of_clips_is_named_by_its_frames_too():
    assert (LONG.name, Bucket(480, 832, 480).name) == ("480-832x480x77", "480-832x480")
    plan = planned(clip("a"), clip("b", bucket=Bucket(480, 832, 480, 33)))
    assert [row.shard for row in plan.samples] == [
        "g0-480-832x480x33-000000",
        "g0-480-832x480x77-000000",
    ]
    assert [shard.number for shard in planned_shards(plan.samples)] == [0, 0]


def test_a_plan_of_clips_comes_back_as_it_was(tmp_path: Path):
    plan = planned(clip("a"), clip("b", pts=(7, 7, 9)))
    digest = write_plan(tmp_path / "plan.parquet", plan, fingerprint="f")
    assert read_plan(tmp_path / "plan.parquet") == plan
    assert samples_of_shard(tmp_path / "plan.parquet", plan.samples[0].shard or "") == list(
        plan.samples
    )
    shards = planned_shards(plan.samples)
    write_shards(tmp_path / "shards.parquet", shards, plan_digest=digest)
    assert read_shards(tmp_path / "shards.parquet") == shards
    assert shards[0].bucket == LONG


def test_other_frames_are_other_latents_and_the_same_text(tmp_path: Path):
    plan = planned(clip("a"), clip("b"))
    moved = planned(clip("a"), clip("b", pts=(1, 513, 1025)), old=plan)
    (before,), (after,) = planned_shards(plan.samples), planned_shards(moved.samples)
    assert before.shard == after.shard
    assert before.pictures_digest != after.pictures_digest
    assert before.captions_digest == after.captions_digest
    first = write_plan(tmp_path / "1.parquet", plan, fingerprint="f")
    assert write_plan(tmp_path / "2.parquet", moved, fingerprint="f") != first


def test_a_clip_that_fits_another_length_moves_to_its_bucket():
    plan = planned(clip("a"), clip("b"))
    short = Bucket(480, 832, 480, 33)
    moved = planned(clip("a"), clip("b", bucket=short, pts=(0,)), old=plan)
    by_key = {row.sample.source_key: row for row in moved.samples}
    assert by_key["a"].shard == "g0-480-832x480x77-000000"
    assert by_key["b"].shard == "g0-480-832x480x33-000000"
    assert by_key["b"].former == ("g0-480-832x480x77-000000",)


def test_pictures_keep_the_digests_that_they_always_had(tmp_path: Path):
    picture = clip("a", bucket=Bucket(480, 832, 480), pts=None)
    plan = planned(picture)
    (shard,) = planned_shards(plan.samples)
    told = b"0 d 480-832x480 (0, 0, 9, 9)\n"
    assert shard.pictures_digest == xxhash.xxh3_128_hexdigest(told)
    digest = write_plan(tmp_path / "plan.parquet", plan, fingerprint="f")
    # Of a plan of this one picture, written before there were clips.
    assert digest == "d97b0ba36c9bfb100096070797d1f53b"


def test_tables_from_before_there_were_clips_are_read_on(tmp_path: Path):
    plan = planned(clip("a", bucket=Bucket(480, 832, 480), pts=None))
    path, view = tmp_path / "plan.parquet", tmp_path / "shards.parquet"
    digest = write_plan(path, plan, fingerprint="f")
    write_shards(view, planned_shards(plan.samples), plan_digest=digest)
    older = pq.read_table(path)
    pq.write_table(older.drop_columns(["frames", "wanted_pts"]), path)
    pq.write_table(pq.read_table(view).drop_columns(["frames"]), view)
    assert read_plan(path) == plan
    assert read_shards(view) == planned_shards(plan.samples)
    assert write_plan(path, read_plan(path), fingerprint="f") == digest
