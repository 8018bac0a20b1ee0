import json
from collections import defaultdict
from collections.abc import Container
from dataclasses import dataclass, field, replace
from fractions import Fraction

from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from diffprep_assets.shard_plan.plan import (
    EMPTY_PLAN,
    Bucket,
    Candidate,
    Plan,
    PlannedSample,
    PlanSettings,
    planned_shards,
)
from diffprep_assets.shard_plan.planning import Curation, updated_plan

SQUARE, WIDE = Bucket(512, 512, 512), Bucket(512, 704, 352)
FIRST, SECOND = "g0-512-512x512-000000", "g0-512-512x512-000001"


def candidate(
    key: str, *, bucket: Bucket = SQUARE, digest: str = "d", group: str = ""
) -> Candidate:
    return Candidate(key, group or key, "p00000", digest, "c", bucket, (0, 0, 9, 9))


def settings(
    *, shard_size: int = 4, train: Fraction = Fraction(1), seed: int = 0, resplit: bool = False
) -> PlanSettings:
    shares = {"train": train, "val": 1 - train, "test": Fraction(0)}
    deal = json.dumps([str(train), seed])
    return PlanSettings(str(shard_size), {512: shard_size}, None, shares, seed, deal, resplit)


def plan_of(keys: str, *, old: Plan = EMPTY_PLAN, curation: Curation | None = None) -> Plan:
    return updated_plan(old, map(candidate, keys), settings(), curation or Curation())


def against(keys: str, plan: Plan, *, drop_skipped: bool = False) -> Curation:
    """Verdicts against these, every shard of the plan being written."""
    written = frozenset(row.sample_id for row in plan.samples if row.shard)
    return Curation(dict.fromkeys(keys, "skip_list:bad"), written, drop_skipped)


def shards(plan: Plan) -> dict[str, str]:
    found: dict[str, str] = defaultdict(str)
    for row in plan.samples:
        if row.shard:
            found[row.shard] += (
                row.sample.source_key.upper() if row.skipped else row.sample.source_key
            )
    return dict(found)


def test_a_verdict_against_a_sample_that_is_not_written_keeps_it_out_without_an_id():
    plan = plan_of("abcd", curation=Curation({"b": "filters.min_side"}))
    assert shards(plan) == {FIRST: "acd"}
    assert [row.sample_id for row in plan.samples] == [0, 1, 2]


def test_a_verdict_against_a_written_sample_skips_it_where_it_is_and_rewrites_nothing():
    before = plan_of("abcdef")
    after = plan_of("abcdef", old=before, curation=against("bf", before))
    assert shards(after) == {FIRST: "aBcd", SECOND: "eF"}
    for was, now in zip(planned_shards(before.samples), planned_shards(after.samples), strict=True):
        assert now.members_digest == was.members_digest
        assert (was.num_skipped, was.skips_digest, now.num_skipped) == (0, "", 1)
        assert now.skips_digest
    assert {row.skipped for row in after.samples} == {None, "skip_list:bad"}
    assert plan_of("abcdef", old=after) == before


def test_the_digest_of_skips_tells_who_is_skipped_and_why():
    before = plan_of("abc")
    digests = {
        planned_shards(plan_of("abc", old=before, curation=curation).samples)[0].skips_digest
        for curation in (
            against("a", before),
            against("b", before),
            replace(against("b", before), against={"b": "dedup"}),
        )
    }
    assert len(digests) == 3


def test_a_planned_sample_that_was_never_written_leaves():
    before = plan_of("abcdef")
    after = plan_of("abcdef", old=before, curation=Curation({"b": "dedup"}, frozenset({0, 2})))
    assert shards(after) == {FIRST: "acd", SECOND: "ef"}
    back = plan_of("abcdef", old=after)
    assert shards(back) == {FIRST: "acd", SECOND: "bef"}
    assert {row.sample.source_key: row.sample_id for row in back.samples}["b"] == 1


def test_a_rewrite_takes_the_skipped_out_of_their_shards_for_as_long_as_the_verdict_lasts():
    before = plan_of("abcdef")
    skipped = plan_of("abcdef", old=before, curation=against("aef", before))
    dropped = plan_of("abcdef", old=skipped, curation=against("aef", skipped, drop_skipped=True))
    assert shards(dropped) == {FIRST: "bcd"}
    assert plan_of("abcdef", old=dropped, curation=against("aef", dropped)) == dropped
    back = plan_of("abcdef", old=dropped)
    assert shards(back) == {FIRST: "bcd", "g0-512-512x512-000002": "aef"}
    assert back.samples[3].former == (FIRST,)


def test_a_skipped_sample_that_is_deleted_edited_or_moved_leaves_its_shard():
    before = plan_of("abcd")
    curation = against("abc", before)
    plan = plan_of("abcd", old=before, curation=curation)
    now = [candidate("b", digest="edited"), candidate("c", bucket=WIDE), candidate("d")]
    after = updated_plan(plan, now, settings(), curation)
    assert shards(after) == {FIRST: "d"}


def test_a_new_generation_takes_no_skipped_sample_along():
    before = plan_of("abcd")
    curation = against("b", before)
    skipped = plan_of("abcd", old=before, curation=curation)
    after = updated_plan(skipped, map(candidate, "abcd"), settings(shard_size=2), curation)
    assert list(shards(after).values()) == ["ac", "d"]


def test_a_newcomer_takes_the_split_of_its_group_whatever_the_group_is_called():
    keys = [f"{i:02d}" for i in range(20)]
    half = settings(train=Fraction(1, 2))
    plan = updated_plan(EMPTY_PLAN, map(candidate, keys), half)
    for row in plan.samples:
        group = f"dup:{row.sample.source_key[::-1]}"
        others = [candidate(key) for key in keys if key != row.sample.source_key]
        joined = [
            *others,
            candidate(row.sample.source_key, group=group),
            candidate("new", group=group),
        ]
        after = updated_plan(plan, joined, half)
        new = next(one for one in after.samples if one.sample.source_key == "new")
        assert new.split == row.split


def in_both_splits() -> tuple[Plan, list[str]]:
    """A plan of two splits, and a key of each."""
    half = settings(train=Fraction(1, 2))
    plan = updated_plan(EMPTY_PLAN, map(candidate, "abcdefgh"), half)
    by_split = {row.split: row.sample.source_key for row in plan.samples}
    return plan, sorted(by_split.values())


def test_a_newcomer_that_joins_groups_of_two_splits_is_left_out_naming_both():
    plan, joined = in_both_splits()
    now = [candidate(key, group="dup:x" if key in joined else "") for key in "abcdefgh"]
    after = updated_plan(plan, [*now, candidate("new", group="dup:x")], settings())
    (leak,) = after.leaks
    assert (leak.source_key, leak.splits, leak.sample_id) == ("new", ("train", "val"), None)
    assert {row.sample.source_key: row.split for row in after.samples} == {
        row.sample.source_key: row.split for row in plan.samples
    }


def test_a_sample_that_comes_back_into_a_group_of_another_split_is_left_out():
    plan, (one, other) = in_both_splits()
    rest = [candidate(key) for key in "abcdefgh" if key != one]
    without = updated_plan(plan, rest, settings())
    now = [replace(each, group="dup:x" if each.source_key == other else "") for each in rest]
    back = updated_plan(without, [*now, candidate(one, group="dup:x")], settings())
    (leak,) = back.leaks
    assert (leak.source_key, leak.splits) == (one, ("train", "val"))
    assert leak.sample_id == next(
        row.sample_id for row in plan.samples if row.sample.source_key == one
    )


def test_a_new_ratio_touches_new_samples_only_until_all_splits_are_dealt_anew():
    keys = [f"{i:02d}" for i in range(20)]
    plan = updated_plan(EMPTY_PLAN, map(candidate, keys), settings())
    assert {row.split for row in plan.samples} == {"train"}
    half = settings(train=Fraction(1, 2))
    kept = updated_plan(plan, map(candidate, keys), half)
    assert kept == plan
    dealt = updated_plan(kept, map(candidate, keys), replace(half, resplit=True))
    assert sum(row.split == "val" for row in dealt.samples) == 10
    assert dealt.state.generation == 1
    assert {row.sample.source_key: row.sample_id for row in dealt.samples} == {
        row.sample.source_key: row.sample_id for row in plan.samples
    }
    assert all(row.former for row in dealt.samples)
    for again in (replace(half, resplit=True), half):
        assert updated_plan(dealt, map(candidate, keys), again) == dealt


def test_a_resplit_heals_what_lay_in_two_splits():
    plan, joined = in_both_splits()
    now = [candidate(key, group="dup:x" if key in joined else "") for key in "abcdefgh"]
    now.append(candidate("new", group="dup:x"))
    other = settings(train=Fraction(3, 4), seed=1, resplit=True)
    healed = updated_plan(plan, now, other)
    assert healed.leaks == ()
    assert len({row.split for row in healed.samples if row.sample.group == "dup:x"}) == 1


# -- histories ------------------------------------------------------------------------------

KEYS = "abcdefghij"


@dataclass(frozen=True)
class Step:
    """What one run finds. By key: its group's name, its bucket, the picture's version."""

    samples: dict[str, tuple[str, bool, str]]
    against: frozenset[str] = frozenset()
    unwritten: frozenset[int] = frozenset()
    drop_skipped: bool = False
    settings: PlanSettings = field(default_factory=settings)


SAMPLES = st.dictionaries(
    st.sampled_from(KEYS),
    st.tuples(st.sampled_from(["", "", "x", "y"]), st.booleans(), st.sampled_from("ppq")),
)
STEPS = st.builds(
    Step,
    samples=SAMPLES,
    against=st.frozensets(st.sampled_from(KEYS), max_size=4),
    unwritten=st.frozensets(st.integers(0, len(KEYS)), max_size=2),
    drop_skipped=st.sampled_from([False, False, False, True]),
    settings=st.builds(
        settings,
        shard_size=st.sampled_from([3, 3, 3, 2]),
        train=st.sampled_from([Fraction(1, 2), Fraction(3, 4)]),
        seed=st.sampled_from([0, 0, 1]),
        resplit=st.sampled_from([False, False, True]),
    ),
)


def candidates_of(step: Step) -> list[Candidate]:
    return [
        candidate(key, group=group, bucket=WIDE if wide else SQUARE, digest=digest)
        for key, (group, wide, digest) in sorted(step.samples.items())
    ]


@examples(max_examples=100, deadline=None)
@given(st.lists(STEPS, min_size=2, max_size=5))
def test_no_history_moves_what_must_stay_or_lets_a_group_into_two_splits(steps: list[Step]):
    plan = EMPTY_PLAN
    for step in steps:
        rows_before = {row.sample.source_key: row for row in plan.samples}
        written = {row.sample_id for row in plan.samples if row.shard} - step.unwritten
        curation = Curation(
            dict.fromkeys(step.against, "rule"), frozenset(written), step.drop_skipped
        )
        after = updated_plan(plan, candidates_of(step), step.settings, curation)
        assert updated_plan(after, candidates_of(step), step.settings, curation) == after
        redealt = bool(plan.samples) and after.state.split_key != plan.state.split_key
        check_for_life(rows_before, after, redealt=redealt)
        check_counts(step, after)
        check_skipped(rows_before, after, curation, step.samples)
        check_groups({} if redealt else rows_before, after)
        plan = after


def check_for_life(before: dict[str, PlannedSample], after: Plan, *, redealt: bool) -> None:
    rows = {row.sample.source_key: row for row in after.samples}
    assert len({row.sample_id for row in after.samples}) == len(after.samples)
    for key, was in before.items():
        assert rows[key].sample_id == was.sample_id
        assert redealt or rows[key].split == was.split


def check_counts(step: Step, after: Plan) -> None:
    """Everything that is there is served, skipped, left out by a verdict, or a leak."""
    served = {row.sample.source_key for row in after.samples if row.shard and not row.skipped}
    skipped = {row.sample.source_key for row in after.samples if row.skipped}
    leaks = {leak.source_key for leak in after.leaks}
    assert skipped <= step.against
    assert served.isdisjoint(step.against)
    assert leaks.isdisjoint(step.against | served)
    assert served | skipped | leaks | step.against & step.samples.keys() == step.samples.keys()
    assert all(row.shard for row in after.samples if row.skipped)


def check_skipped(
    before: dict[str, PlannedSample], after: Plan, curation: Curation, present: Container[str]
) -> None:
    """Skipped is just what a verdict is against, was written, and is what was written."""
    for row in after.samples:
        was = before.get(row.sample.source_key)
        stays = (
            was is not None
            and was.shard is not None
            and was.shard.startswith(f"g{after.state.generation}-")
            and was.sample == replace(row.sample, group=was.sample.group)
            and row.sample.source_key in present
            and row.sample.source_key in curation.against
            and row.sample_id in curation.written
            and not curation.drop_skipped
        )
        assert (row.skipped is not None) == stays
        assert not stays or row.shard == (was and was.shard)


def check_groups(before: dict[str, PlannedSample], after: Plan) -> None:
    """A group in two splits has them from samples that were in the dataset before."""
    splits: dict[str, set[str]] = defaultdict(set)
    old_splits: dict[str, set[str]] = defaultdict(set)
    for row in after.samples:
        if row.shard:
            splits[row.sample.group].add(row.split)
            was = before.get(row.sample.source_key)
            if was is not None and was.shard:
                old_splits[row.sample.group].add(row.split)
    for group, found in splits.items():
        assert len(found) == 1 or found == old_splits[group]
