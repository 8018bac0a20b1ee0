from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from diffprep_assets.layout import Layout
from diffprep_assets.shard.record import ShardRecord, ShardReject, write_record
from diffprep_assets.shard_plan.plan import (
    EMPTY_PLAN,
    Bucket,
    Candidate,
    PlannedShard,
    PlanSettings,
    planned_shards,
)
from diffprep_assets.shard_plan.planning import Curation, updated_plan
from diffprep_assets.shard_plan.skipped import (
    Skipped,
    longest_run,
    run_warning,
    share_warning,
    sizes_of,
    skipped_by_shard,
    skipped_keys,
)
from diffprep_assets.shard_plan.table import write_plan

TRAIN = {"train": Fraction(1), "val": Fraction(0), "test": Fraction(0)}


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path, "set", tmp_path / "out")


def write_plan_with_skips(layout: Layout, skipped: Iterable[str]) -> list[PlannedShard]:
    """Ten samples in shards of four, these of them skipped."""
    settings = PlanSettings("a", {64: 4}, None, TRAIN, 0)
    samples = [
        Candidate(f"{i}", f"{i}", "p00000", "d", "c", Bucket(64, 64, 64), (0, 0, 9, 9))
        for i in range(10)
    ]
    first = updated_plan(EMPTY_PLAN, samples, settings)
    curation = Curation(dict.fromkeys(skipped, "skip_list:bad"), frozenset(range(10)))
    plan = updated_plan(first, samples, settings, curation)
    layout.folder.mkdir()
    write_plan(layout.shard_plan, plan, fingerprint="f")
    return planned_shards(plan.samples)


def shard(number: int, samples: int, skipped: int, *, split: str = "train") -> PlannedShard:
    name = f"g0-64-64x64-{number:06d}"
    return PlannedShard(
        name, Bucket(64, 64, 64), number, split, samples, "p", "c", "m", num_skipped=skipped
    )


def test_skipped_samples_are_told_by_shard_with_the_rule_against_them(layout: Layout):
    write_plan_with_skips(layout, "457")
    rule = "skip_list:bad"
    rows = [Skipped(number, f"{number:010d}", rule) for number in (4, 5, 7)]
    assert skipped_by_shard(layout) == {"g0-64-64x64-000001": rows}
    assert skipped_keys(layout.shard_plan) == {"4", "5", "7"}


def test_what_encoding_left_out_of_a_shard_is_not_skipped_there(layout: Layout):
    write_plan_with_skips(layout, "49")
    reject = ShardReject("4", 4, "encode_latents", "non_finite", "NaN")
    record = ShardRecord("g0-64-64x64-000001", "f", 64, 64, 64, 1, 3, 9, 9, "d", rejects=(reject,))
    path = layout.of("raw").shard_record(record.shard)
    path.parent.mkdir()
    write_record(path, record)
    assert list(skipped_by_shard(layout.of("raw"))) == ["g0-64-64x64-000002"]
    assert len(skipped_by_shard(layout)) == 2


def test_without_a_plan_nothing_is_skipped(layout: Layout):
    assert skipped_by_shard(layout) == {}
    assert skipped_keys(layout.shard_plan) == frozenset()


def test_a_run_goes_on_over_shards_and_a_shard_with_nothing_left_is_in_nobodys_way():
    shards = [shard(0, 4, 2), shard(1, 3, 3), shard(2, 5, 1), shard(3, 8, 0)]
    flags = {
        "g0-64-64x64-000000": [False, False, True, True],
        "g0-64-64x64-000001": [True, True, True],
        "g0-64-64x64-000002": [True, False, False, False, False],
    }
    sizes = sizes_of(shards, flags, per_bucket=False)
    assert (sizes.samples, sizes.skipped, sizes.longest_run) == (20, 6, 3)
    # Of 17 samples, 4 workers have at least 4 each, and 5 workers have 3.
    assert sizes.starved_readers == 5


def test_the_split_that_starves_first_counts():
    shards = [shard(0, 100, 2), shard(1, 10, 1, split="val")]
    flags = {
        "g0-64-64x64-000000": [True, True, *[False] * 98],
        "g0-64-64x64-000001": [False] * 9 + [True],
    }
    sizes = sizes_of(shards, flags, per_bucket=False)
    assert (sizes.run_split, sizes.longest_run, sizes.starved_readers) == ("val", 1, 6)


def test_where_each_bucket_is_read_by_itself_its_own_samples_are_dealt_to_readers():
    small = shard(0, 4, 1)
    large = replace(shard(0, 100, 0), bucket=Bucket(64, 32, 96), shard="g0-64-32x96-000000")
    flags = {small.shard: [True, False, False, False]}
    starved = [
        sizes_of([small, large], flags, per_bucket=per_bucket).starved_readers
        for per_bucket in (False, True)
    ]
    assert starved == [53, 3]


def test_with_nothing_skipped_there_is_nothing_to_warn_of():
    sizes = sizes_of([shard(0, 4, 0)], {}, per_bucket=False)
    assert (sizes.skipped, sizes.starved_readers) == (0, None)
    assert run_warning(sizes) is share_warning(sizes) is None


@pytest.mark.parametrize(
    ("flags", "longest"), [("", 0), ("..", 0), ("x", 1), (".xx.xxx.", 3), ("xx..x", 2)]
)
def test_the_longest_run_of_skipped_samples(flags: str, longest: int):
    assert longest_run(flag == "x" for flag in flags) == longest


def brute_force_starves(flags: list[bool], readers: int) -> bool:
    """Whether some way to cut the samples gives a reader nothing to serve: stretches of n // r or
    one more."""
    size = len(flags) // readers
    return size > 0 and any(all(flags[i : i + size]) for i in range(len(flags) - size + 1))


def test_the_smallest_number_of_readers_that_may_starve_is_exact():
    flags = [False] * 7 + [True] * 3 + [False] * 9 + [True] * 2 + [False]
    one = shard(0, len(flags), 5)
    starved = sizes_of([one], {one.shard: flags}, per_bucket=False).starved_readers
    assert starved is not None
    assert brute_force_starves(flags, starved)
    assert not any(brute_force_starves(flags, readers) for readers in range(1, starved))
