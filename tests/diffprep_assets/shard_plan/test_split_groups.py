from fractions import Fraction

from diffprep_assets.shard_plan.split_groups import (
    Arrivals,
    MixedGroups,
    dealt_splits,
    mixed_groups,
    mixed_warning,
)

HALF = {"train": Fraction(1, 2), "val": Fraction(1, 2), "test": Fraction(0)}


def test_who_is_in_the_dataset_decides_before_who_left_it():
    arrivals = Arrivals(
        placed=[("x", "val")], gone=[("x", "train"), ("y", "val")], new={"a": "x", "b": "y"}
    )
    dealt = dealt_splits(arrivals, shares=HALF, seed=0)
    assert (dealt.splits, dealt.leaks) == ({"x": "val", "y": "val"}, {})


def test_of_two_that_come_back_into_one_group_from_two_splits_the_first_stays():
    arrivals = Arrivals(returning=[("a", "x", "val"), ("b", "x", "train"), ("c", "x", "val")])
    dealt = dealt_splits(arrivals, shares=HALF, seed=0)
    assert dealt.leaks == {"b": ("train", "val")}


def test_all_newcomers_of_a_group_in_two_splits_stay_out():
    arrivals = Arrivals(placed=[("x", "val"), ("x", "test")], new=dict.fromkeys("ab", "x"))
    assert dealt_splits(arrivals, shares=HALF, seed=0).leaks == dict.fromkeys("ab", ("test", "val"))


def test_quotas_count_what_is_placed_and_what_joins_it():
    arrivals = Arrivals(
        placed=[("x", "val")],
        returning=[("r", "x", "val")],
        new={"a": "x", **{f"{i}": f"{i}" for i in range(7)}},
    )
    splits = dict(dealt_splits(arrivals, shares=HALF, seed=0).splits)
    assert splits.pop("x") == "val"
    # Five of ten belong in val, and three are there.
    assert sorted(splits.values()) == ["train"] * 5 + ["val"] * 2


def test_groups_that_are_mixed_are_counted_and_the_first_named():
    members = [(f"{i}", split) for i in range(5) for split in ("val", "train")] + [("one", "val")]
    mixed = mixed_groups(members)
    assert mixed == MixedGroups(5, {f"{i}": ("train", "val") for i in range(3)})
    assert "2 (train and val) and 2 more" in (mixed_warning(mixed) or "")
    assert mixed_warning(mixed_groups([("a", "val"), ("a", "val")])) is None
