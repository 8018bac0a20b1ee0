"""Batches of a pass, as energon's own loader makes them."""

from collections import Counter
from dataclasses import replace

from megatron.energon import WorkerConfig, get_loader, get_train_dataset

from diffprep_assets.plan_report.left_over import batches_of_pass
from diffprep_assets.shard_plan.plan import Bucket, PlannedShard
from diffprep_assets.stage_inputs import shards_of_plan
from diffprep_resources.trainers.energon import PreencodedTaskEncoder

SQUARE, WIDE = Bucket(64, 64, 64), Bucket(64, 96, 48)


def shard(number: int, bucket: Bucket, samples: int, split: str = "train") -> PlannedShard:
    return PlannedShard(f"s{number}", bucket, number, split, samples, "", "", "")


PLAN = [shard(0, SQUARE, 10), shard(1, SQUARE, 7), shard(2, WIDE, 8), shard(3, WIDE, 9, "val")]


def test_one_reader_leaves_over_the_rest_of_each_bucket():
    found = batches_of_pass(PLAN, batch_size=4, streams=1, skips={})
    assert (found.full, found.left_over) == ({SQUARE: 4, WIDE: 2}, {SQUARE: 1, WIDE: 0})


def test_every_sample_is_in_a_batch_or_left_over():
    for streams in (2, 3, 7, 24, 25, 60):
        found = batches_of_pass(PLAN, batch_size=3, streams=streams, skips={})
        assert 3 * found.full.total() + found.left_over.total() == 25, streams


def test_more_readers_than_samples_fill_no_batch():
    found = batches_of_pass(PLAN, batch_size=2, streams=60, skips={})
    assert found.full.total() == 0
    assert found.left_over == {SQUARE: 17, WIDE: 8}


def test_no_train_shard_means_no_batch():
    assert batches_of_pass(PLAN[3:], batch_size=2, streams=4, skips={}).left_over.total() == 0


def test_skipped_samples_count_in_the_runs_and_fill_no_batch():
    # Two runs of 9 and 8: 10 squares of which the first three are skipped, then 7.
    skips = {"s0": [True] * 3 + [False] * 7}
    shards = [replace(PLAN[0], num_skipped=3), PLAN[1]]
    found = batches_of_pass(shards, batch_size=4, streams=2, skips=skips)
    assert (found.full, found.left_over) == ({SQUARE: 1 + 2}, {SQUARE: 2 + 0})
    # A shard with nothing left is in no run.
    gone = [replace(PLAN[0], num_skipped=10), PLAN[1]]
    found = batches_of_pass(gone, batch_size=4, streams=2, skips={"s0": [True] * 10})
    assert (found.full, found.left_over) == ({SQUARE: 1}, {SQUARE: 3})


def test_it_is_what_energons_loader_yields(project):
    project.write_pictures(range(13))
    project.write_recipe(
        output={"shard_size": 5}, image={"variable_size": True, "max_size": 64, "image_size": None}
    )
    assert project.run().ok
    dataset = project.dataset()
    shards = shards_of_plan(dataset)
    for ranks in (1, 3):
        expected = batches_of_pass(shards, batch_size=2, streams=ranks, skips={})
        sizes: Counter[int] = Counter()
        for rank in range(ranks):
            loader = get_loader(
                get_train_dataset(
                    dataset.layout.output_dir,
                    worker_config=WorkerConfig(rank=rank, world_size=ranks, num_workers=0),
                    batch_size=2,
                    repeat=False,
                    shuffle_buffer_size=None,
                    max_samples_per_sequence=None,
                    task_encoder=PreencodedTaskEncoder(),
                ),
                watchdog_timeout_seconds=None,
            )
            sizes.update(len(batch["captions"]) for batch in loader)
        assert sizes[2] == expected.full.total()
        assert sizes[1] == expected.left_over.total() > 0
