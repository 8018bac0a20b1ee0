"""Timing a few batches, and what follows from it."""

import pytest

from diffprep_assets.plan_report.probe import ProbeSpec, StageProbe, TimedBatches
from diffprep_assets.plan_report.stored_sizes import PictureSizes
from diffprep_assets.plan_report.times import Estimate, probe_tasks, probed
from diffprep_assets.plan_report.timing import probe_spec
from diffprep_assets.shard_plan.plan import Bucket, PlannedShard
from diffprep_assets.stage_inputs import shards_of_plan
from diffprep_resources.compute.inline import InlineEngine

STAGES = ("encode_latents", "encode_text", "shard")
NEW, ENCODED, DONE = frozenset(), frozenset(STAGES[:2]), frozenset(STAGES)


def shard(name: str, size: tuple[int, int], samples: int) -> PlannedShard:
    return PlannedShard(name, Bucket(512, *size), 0, "train", samples, "", "", "")


SHARDS = [
    shard("a", (512, 512), 10),
    shard("b", (512, 512), 8),
    shard("c", (1024, 1024), 1),
    shard("d", (256, 256), 4),
]


def test_the_most_of_the_work_and_the_largest_picture_are_timed():
    tasks = {task.key: task.shards for task in probe_tasks(SHARDS, stages=STAGES)}
    assert tasks == {"encode_latents": ("a", "c"), "encode_text": ("a",), "shard": ("a",)}
    assert probe_tasks(SHARDS[:2], stages=STAGES)[0].shards == ("a",)
    assert [task.key for task in probe_tasks(SHARDS, stages=("encode_text", "shard_raw"))] == [
        "encode_text"
    ]


def test_time_goes_by_whole_batches_and_by_pixels_of_the_nearest_timed_size():
    timed = (TimedBatches(512 * 512, 4, 32, 8.0), TimedBatches(1024 * 1024, 1, 8, 12.0))
    probe = StageProbe(load_seconds=5.0, timed=timed)
    made = {"a": NEW, "b": DONE, "c": NEW, "d": ENCODED}
    time = Estimate(SHARDS, made, 8).latents(probe, 2)
    # a: 2 batches of 2 s, b: one, c: one of 12 s, d: one of a quarter of 2 s.
    assert time.whole_seconds == pytest.approx((4 + 2 + 12 + 0.5) / 2 + 5)
    assert time.seconds == pytest.approx((4 + 12) / 2 + 5)
    assert time.timed == 40


def test_nothing_to_do_takes_no_time_not_even_loading():
    probe = StageProbe(5.0, (TimedBatches(0, 1, 8, 1.0),))
    time = Estimate(SHARDS[:1], {"a": DONE}, 8).text(probe, 1)
    assert (time.seconds, time.whole_seconds) == (0.0, 7.0)


def test_stored_pictures_take_as_long_as_those_of_their_bucket_that_were_tried():
    tried = PictureSizes(thumb=0.5)
    for _ in range(4):
        tried.add(SHARDS[0].bucket, 512 * 512 // 8, 0.5)
    tried.add(SHARDS[2].bucket, 1024 * 1024 // 8, 3.0)
    made = {"a": NEW, "b": frozenset({"shard_raw"}), "c": NEW, "d": NEW}
    time = Estimate(SHARDS, made, 8).pictures(tried, 2, stage="shard_raw")
    # 10 of half a second; of a bucket with fewer than four tries, all tries count: a second.
    assert time.seconds == pytest.approx((10 * 0.5 + 1 + 4) / 2)
    assert time.whole_seconds == pytest.approx((18 * 0.5 + 1 + 4) / 2)
    assert tried.bytes_of(Bucket(512, 512, 512)) == 512 * 512 // 8
    assert tried.bytes_of(Bucket(512, 256, 256)) == 256 * 256 // 8
    assert PictureSizes(thumb=0.5).bytes_of(Bucket(64, 64, 64)) == 2048


@pytest.fixture
def spec(project) -> ProbeSpec:
    from diffprep_assets.run_command import RunRequest, run_dataset
    from diffprep_resources.progress.silent import SilentProgress

    project.write_pictures(range(5))
    path = project.write_recipe(output={"shard_size": 3})
    request = RunRequest(project.project, path, {}, {}, plan_only=True)
    assert run_dataset(request, SilentProgress(), say=lambda _: None).ok
    return probe_spec(project.dataset())


def test_real_batches_are_timed_and_leave_no_file(spec: ProbeSpec, project):
    shards = shards_of_plan(project.dataset())
    before = sorted(path for path in project.folder.rglob("*") if "work" in path.parts)
    engine = InlineEngine(device="cpu")
    found = {
        outcome.key: outcome.result or pytest.fail(str(outcome.error))
        for outcome in engine.run(spec, probe_tasks(shards, stages=STAGES), report=lambda *_: None)
    }
    assert sorted(path for path in project.folder.rglob("*") if "work" in path.parts) == before
    assert not list(project.layout().folder.glob("latents/*"))
    latents = found["encode_latents"]
    assert (latents.batch_size, latents.rejected) == (4, 0)
    assert latents.timed[0].pixels == 64 * 64
    assert latents.timed[0].samples == 4 * latents.timed[0].batches
    assert found["encode_text"].timed[0].seconds > 0
    (tars,) = found["shard"].timed
    assert tars.batches > tars.samples * 1000  # bytes
    assert latents.peak_memory > 10**7


@pytest.mark.long  # a process that loads torch
def test_a_probe_that_fails_says_so_and_ends(spec: ProbeSpec, project):
    shards = shards_of_plan(project.dataset())
    project.layout().shard_plan.unlink()
    tasks = probe_tasks(shards, stages=STAGES)
    found, failed = probed(spec, tasks, device="cpu", told=lambda _: None)
    assert found == {}
    assert failed is not None
    assert "encode_latents" in failed
