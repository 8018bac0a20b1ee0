"""Which split a sample takes when it comes into the dataset, so that no group lies in two splits.

A group is known by its members: its name may change as duplicates join it. So the splits of those
that are in the dataset now decide; those that left are asked only where none of theirs is in it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from diffprep_assets.changes import plural
from diffprep_assets.shard_plan.splits import splits_of_groups

NAMED = 3


@dataclass(slots=True)
class Arrivals:
    """What stands in the dataset, and what comes into it.

    `placed` and `gone` are (group, split) of samples that are in it and of those that left;
    `returning` are (source_key, group, split) of samples that come back, in the order of ids, and
    `new` gives the group of each newcomer by source_key.
    """

    placed: list[tuple[str, str]] = field(default_factory=list)
    gone: list[tuple[str, str]] = field(default_factory=list)
    returning: list[tuple[str, str, str]] = field(default_factory=list)
    new: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DealtSplits:
    """`splits` gives the split of every group that has a newcomer; `leaks` the splits that a
    sample, by source_key, would have joined: it must stay out."""

    splits: Mapping[str, str]
    leaks: Mapping[str, tuple[str, ...]]


def dealt_splits(arrivals: Arrivals, *, shares: Mapping[str, Fraction], seed: int) -> DealtSplits:
    """The splits of newcomers. Nothing that is placed moves, and what comes back keeps its own.

    A newcomer takes its group's split. A group that is new takes one by `splits_of_groups`; quotas
    count what is placed and what joins it.
    """
    joined: dict[str, set[str]] = {}
    for group, split in arrivals.placed:
        joined.setdefault(group, set()).add(split)
    taken = Counter(split for _, split in arrivals.placed)
    leaks: dict[str, tuple[str, ...]] = {}
    for key, group, split in arrivals.returning:
        found = joined.setdefault(group, {split})
        if found != {split}:
            leaks[key] = tuple(sorted(found | {split}))
        else:
            taken[split] += 1
    remembered: dict[str, str] = {}
    for group, split in arrivals.gone:
        remembered.setdefault(group, split)
    chosen: dict[str, str] = {}
    fresh: Counter[str] = Counter()
    for key, group in arrivals.new.items():
        found = joined.get(group) or _one(remembered.get(group))
        if len(found) > 1:
            leaks[key] = tuple(sorted(found))
        elif found:
            (chosen[group],) = found
            taken[chosen[group]] += 1
        else:
            fresh[group] += 1
    dealt = splits_of_groups(fresh, known=taken, shares=shares, seed=seed)
    return DealtSplits(chosen | dealt, leaks)


@dataclass(frozen=True, slots=True)
class MixedGroups:
    """How many groups have samples in more than one split, and the splits of the first few."""

    groups: int = 0
    first: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def mixed_groups(members: Iterable[tuple[str, str]]) -> MixedGroups:
    """The groups that lie in several splits, over (group, split) of samples."""
    splits: dict[str, set[str]] = {}
    for group, split in members:
        splits.setdefault(group, set()).add(split)
    mixed = sorted(group for group, found in splits.items() if len(found) > 1)
    return MixedGroups(len(mixed), {group: tuple(sorted(splits[group])) for group in mixed[:NAMED]})


def mixed_warning(mixed: MixedGroups) -> str | None:
    """What to know of groups that lie in several splits."""
    if not mixed.groups:
        return None
    named = ", ".join(f"{group} ({' and '.join(splits)})" for group, splits in mixed.first.items())
    more = f" and {mixed.groups - NAMED:,} more" if mixed.groups > NAMED else ""
    return (
        f"{mixed.groups:,} {plural('group', mixed.groups)} of samples that belong together had "
        f"samples in several splits already, which stay there: {named}{more}. output.resplit: true "
        f"with another output.split_seed deals all splits anew"
    )


def _one(split: str | None) -> set[str]:
    return set() if split is None else {split}
