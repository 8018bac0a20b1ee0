from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path

from diffprep_assets.shard_plan.plan import (
    EMPTY_PLAN,
    Bucket,
    Candidate,
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

SQUARE = Bucket(512, 512, 512)
WIDE = Bucket(512, 704, 352)
ALL_TRAIN = {"train": Fraction(1), "val": Fraction(0), "test": Fraction(0)}


def candidate(
    name: str, *, bucket: Bucket = SQUARE, digest: str = "d", group: str = ""
) -> Candidate:
    return Candidate(name, group or name, "p00000", digest, "c", bucket, (0, 0, 9, 9))


def settings(
    *,
    key: str = "a",
    shard_size: int = 4,
    shuffle_seed: int | None = None,
    train: Fraction = Fraction(1),
) -> PlanSettings:
    rest = (1 - train) / 2
    shares = {"train": train, "val": rest, "test": rest}
    return PlanSettings(key, {512: shard_size}, shuffle_seed, shares, 0)


def plan_of(names: Iterable[str], *, old: Plan = EMPTY_PLAN, **changes) -> Plan:
    return updated_plan(old, [candidate(name) for name in names], settings(**changes))


def members(plan: Plan) -> dict[str, list[str]]:
    shards: dict[str, list[str]] = {}
    for row in plan.samples:
        if row.shard:
            shards.setdefault(row.shard, []).append(row.sample.source_key)
    return shards


def test_ten_samples_in_shards_of_eight_make_eight_and_two():
    plan = plan_of([f"{i:02d}" for i in range(10)], shard_size=8)
    assert [len(keys) for keys in members(plan).values()] == [8, 2]
    assert list(members(plan)) == ["g0-512-512x512-000000", "g0-512-512x512-000001"]


def test_a_shard_holds_one_bucket_and_numbers_count_within_it():
    samples = [candidate(f"{i}", bucket=SQUARE if i % 2 else WIDE) for i in range(6)]
    plan = updated_plan(EMPTY_PLAN, samples, settings())
    assert members(plan) == {
        "g0-512-512x512-000000": ["1", "3", "5"],
        "g0-512-704x352-000000": ["0", "2", "4"],
    }


def test_an_added_sample_changes_only_the_last_shard():
    before = plan_of("bcdefg")
    after = plan_of("abcdefg", old=before)
    assert members(after)["g0-512-512x512-000000"] == list("bcde")
    assert members(after)["g0-512-512x512-000001"] == ["f", "g", "a"]
    digests = [
        {s.shard: s.members_digest for s in planned_shards(p.samples)} for p in (before, after)
    ]
    changed = [shard for shard in digests[1] if digests[0].get(shard) != digests[1][shard]]
    assert changed == ["g0-512-512x512-000001"]


def test_a_deleted_sample_leaves_a_hole_that_nobody_fills():
    before = plan_of("abcde")
    without = plan_of("acde", old=before)
    after = plan_of("acdef", old=without)
    assert members(after) == {
        "g0-512-512x512-000000": list("acd"),
        "g0-512-512x512-000001": list("ef"),
    }


def test_a_sample_keeps_its_id_through_leaving_coming_back_and_changing_bucket():
    first = plan_of("abc")
    gone = plan_of("ac", old=first)
    moved = [candidate("a"), candidate("b", bucket=WIDE), candidate("c")]
    back = updated_plan(gone, moved, settings())
    ids = {row.sample.source_key: row.sample_id for row in back.samples}
    assert ids == {"a": 0, "b": 1, "c": 2}
    assert members(back)["g0-512-704x352-000000"] == ["b"]
    newcomer = updated_plan(back, [*moved, candidate("d")], settings())
    assert max(row.sample_id for row in newcomer.samples) == 3


def test_an_edited_picture_stays_in_place_and_changes_its_shards_pictures_digest_alone():
    before = plan_of("abcdef")
    edited = [candidate(name, digest="new" if name == "b" else "d") for name in "abcdef"]
    after = updated_plan(before, edited, settings())
    assert members(after) == members(before)
    old, new = planned_shards(before.samples), planned_shards(after.samples)
    assert old[0].pictures_digest != new[0].pictures_digest
    assert old[0].captions_digest == new[0].captions_digest
    assert old[1] == new[1]


def test_a_shard_with_no_sample_left_is_retired_and_its_number_never_used_again():
    before = plan_of("abcde")
    after = plan_of("abcdx", old=plan_of("abcd", old=before))
    assert members(after)["g0-512-512x512-000002"] == ["x"]
    assert "g0-512-512x512-000001" not in members(after)


def test_a_new_generation_deals_every_sample_again_under_new_numbers_and_old_ids():
    before = plan_of("abcde")
    after = plan_of("abcde", old=before, key="b", shard_size=3)
    assert members(after) == {
        "g1-512-512x512-000002": list("abc"),
        "g1-512-512x512-000003": list("de"),
    }
    assert [row.sample_id for row in after.samples] == [0, 1, 2, 3, 4]


def test_splits_fill_quotas_and_last_for_life():
    names = [f"{i:03d}" for i in range(100)]
    plan = plan_of(names, train=Fraction(8, 10))
    count = lambda p: {s: sum(r.split == s for r in p.samples) for s in ("train", "val", "test")}  # noqa: E731
    assert count(plan) == {"train": 80, "val": 10, "test": 10}
    again = plan_of([*names, "new"], old=plan, train=Fraction(1))
    assert {r.sample.source_key: r.split for r in plan.samples}.items() <= {
        r.sample.source_key: r.split for r in again.samples
    }.items()
    assert count(again) == {"train": 81, "val": 10, "test": 10}


def test_train_is_never_empty():
    assert [row.split for row in plan_of("a", train=Fraction(0)).samples] == ["train"]
    splits = {row.split for row in plan_of("abc", train=Fraction(0)).samples}
    assert "train" in splits


def test_captions_of_one_picture_share_a_split():
    samples = [candidate(f"{i}::c{c}", group=str(i)) for i in range(40) for c in range(2)]
    plan = updated_plan(EMPTY_PLAN, samples, settings(train=Fraction(1, 2)))
    by_group: dict[str, set[str]] = {}
    for row in plan.samples:
        by_group.setdefault(row.sample.group, set()).add(row.split)
    assert {len(splits) for splits in by_group.values()} == {1}
    late = updated_plan(plan, [*samples, candidate("7::c2", group="7")], settings())
    assert {r.split for r in late.samples if r.sample.group == "7"} == by_group["7"]


def test_a_shuffle_seed_deals_in_an_order_of_its_own_that_later_samples_do_not_disturb():
    names = [f"{i:02d}" for i in range(20)]
    plan = plan_of(names, shuffle_seed=1)
    assert members(plan) != members(plan_of(names))
    assert members(plan) == members(plan_of(names, shuffle_seed=1))
    assert members(plan) != members(plan_of(names, shuffle_seed=2))
    later = plan_of([*names, "zz"], old=plan, shuffle_seed=1)
    assert {k: v for k, v in members(later).items() if "zz" not in v} == members(plan)


def test_a_plan_written_and_read_is_the_same_and_the_same_bytes(tmp_path: Path):
    plan = plan_of([f"{i:02d}" for i in range(9)], train=Fraction(1, 2))
    plan = plan_of([f"{i:02d}" for i in range(8)], old=plan, train=Fraction(1, 2))
    digest = write_plan(tmp_path / "a.parquet", plan, fingerprint="f")
    assert read_plan(tmp_path / "a.parquet") == plan
    assert (
        write_plan(tmp_path / "b.parquet", read_plan(tmp_path / "a.parquet"), fingerprint="f")
        == digest
    )
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()
    shards = planned_shards(plan.samples)
    write_shards(tmp_path / "s.parquet", shards, plan_digest=digest)
    assert read_shards(tmp_path / "s.parquet") == shards
    rows = samples_of_shard(tmp_path / "a.parquet", shards[0].shard)
    assert rows == [row for row in plan.samples if row.shard == shards[0].shard]


def test_planning_again_with_nothing_changed_changes_nothing():
    plan = plan_of("abcdefg", train=Fraction(1, 2))
    assert plan_of("abcdefg", old=plan, train=Fraction(1, 2)) == plan
