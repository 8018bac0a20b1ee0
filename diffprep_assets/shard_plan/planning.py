"""The append-only plan brought up to date (DESIGN 6): what moves, and what never does.

A pure function of the old plan, the bucket tables, curate's verdicts, what is written, and the
recipe: the same history gives the same rows. A sample keeps its id for ever, and its split until
all splits are dealt anew; places once given are not given again.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from diffprep_assets.shard_plan.plan import (
    Candidate,
    Plan,
    PlannedSample,
    PlanSettings,
    PlanState,
    SplitLeak,
)
from diffprep_assets.shard_plan.split_groups import Arrivals, DealtSplits, dealt_splits
from diffprep_assets.shard_plan.splits import shuffled


@dataclass(frozen=True, slots=True)
class Curation:
    """What curation says of the candidates: `against` gives the rule of each verdict against one,
    by source_key; `written` the ids of those that are in a shard which was written.

    Such a sample stays where it is, skipped, as long as it is what was written; with `drop_skipped`
    it leaves.
    """

    against: Mapping[str, str] = field(default_factory=dict)
    written: frozenset[int] = frozenset()
    drop_skipped: bool = False

    def rule_of_skip(self, planned: PlannedSample, candidate: Candidate) -> str | None:
        """The rule by which a planned sample is skipped as it now is; None where it is not."""
        rule = self.against.get(candidate.source_key)
        stays = (
            planned.shard is not None
            and not self.drop_skipped
            and planned.sample_id in self.written
            and _as_written(planned.sample) == _as_written(candidate)
        )
        return rule if stays else None


NO_CURATION = Curation()


def updated_plan(
    old: Plan,
    candidates: Iterable[Candidate],
    settings: PlanSettings,
    curation: Curation = NO_CURATION,
) -> Plan:
    """The plan that holds exactly the `candidates` that nothing is against, and what is skipped,
    moving as little as possible.

    `candidates` come in source order: by part, then by place in the part.
    """
    present = {candidate.source_key: candidate for candidate in candidates}
    kept = {key: sample for key, sample in present.items() if key not in curation.against}
    state = _next_state(old.state, settings)
    stays = state.generation == old.state.generation
    rows = [_carried_over(planned, present, curation, stays=stays) for planned in old.samples]
    known = {row.sample.source_key for row in rows}
    new = {key: sample for key, sample in kept.items() if key not in known}
    redealt = bool(old.samples) and state.split_key != old.state.split_key
    if redealt:
        arrivals = Arrivals(new={key: sample.group for key, sample in kept.items()})
    else:
        arrivals = _arrivals(old.samples, rows, kept, new)
    dealt = dealt_splits(arrivals, shares=settings.shares, seed=settings.split_seed)
    if redealt:
        rows = [replace(row, split=dealt.splits.get(row.sample.group, row.split)) for row in rows]
    order = new if settings.shuffle_seed is None else shuffled(new, seed=settings.shuffle_seed)
    ids = enumerate((key for key in order if key not in dealt.leaks), state.next_sample_id)
    rows += [PlannedSample(i, dealt.splits[new[key].group], None, new[key]) for i, key in ids]
    state = replace(state, next_sample_id=state.next_sample_id + len(new.keys() - dealt.leaks))
    plan = _placed(rows, kept.keys() - dealt.leaks.keys(), state, settings)
    return replace(plan, leaks=_leaks(rows, present, dealt))


def _next_state(state: PlanState, settings: PlanSettings) -> PlanState:
    """The state as it is, or that of the next generation."""
    # A plan that does not know how its splits were dealt takes today's settings for it.
    dealt_by = state.split_key or settings.split_key
    resplits = settings.resplit and dealt_by != settings.split_key
    if state.generation_key == settings.generation_key and not resplits:
        return replace(state, split_key=dealt_by)
    return replace(
        state,
        generation=state.generation + 1,
        generation_key=settings.generation_key,
        open_shards={},
        split_key=settings.split_key if resplits else dealt_by,
    )


def _as_written(sample: Candidate) -> tuple[object, ...]:
    """What decides the bytes of a sample in any format."""
    return sample.image_digest, sample.caption_digest, sample.crop, sample.bucket, sample.clip


def _carried_over(
    planned: PlannedSample,
    present: Mapping[str, Candidate],
    curation: Curation,
    *,
    stays: bool,
) -> PlannedSample:
    """An old sample as it is now: it keeps its place while its bucket and generation last, and
    nothing is against it or it is skipped."""
    candidate = present.get(planned.sample.source_key)
    if candidate is not None and stays and candidate.bucket == planned.sample.bucket:
        rule = curation.rule_of_skip(planned, candidate)
        if rule is not None or candidate.source_key not in curation.against:
            return replace(planned, sample=candidate, skipped=rule)
    former = (planned.shard, *planned.former) if planned.shard else planned.former
    sample = candidate or planned.sample
    return replace(planned, sample=sample, shard=None, former=former, skipped=None)


def _arrivals(
    before: Iterable[PlannedSample],
    rows: Iterable[PlannedSample],
    kept: Mapping[str, Candidate],
    new: Mapping[str, Candidate],
) -> Arrivals:
    """What is in the dataset and what comes into it; `rows` are those of `before` as they are now.
    A skipped sample is in it: it may be shown again any time."""
    arrivals = Arrivals(new={key: sample.group for key, sample in new.items()})
    returning: list[PlannedSample] = []
    for was, row in zip(before, rows, strict=True):
        is_kept = row.sample.source_key in kept
        if row.skipped is not None or (is_kept and was.shard is not None):
            arrivals.placed.append((row.sample.group, row.split))
        elif is_kept:
            returning.append(row)
        else:
            arrivals.gone.append((row.sample.group, row.split))
    returning.sort(key=lambda row: row.sample_id)
    arrivals.returning += [
        (row.sample.source_key, row.sample.group, row.split) for row in returning
    ]
    return arrivals


def _leaks(
    rows: Iterable[PlannedSample], present: Mapping[str, Candidate], dealt: DealtSplits
) -> tuple[SplitLeak, ...]:
    if not dealt.leaks:
        return ()
    ids = {row.sample.source_key: row.sample_id for row in rows}
    found = ((present[key], dealt.leaks[key]) for key in sorted(dealt.leaks))
    return tuple(
        SplitLeak(sample.source_key, sample.part, sample.group, splits, ids.get(sample.source_key))
        for sample, splits in found
    )


def _placed(
    rows: list[PlannedSample],
    wanted: Collection[str],
    state: PlanState,
    settings: PlanSettings,
) -> Plan:
    """Every row without a place whose key is wanted gets one, in the order of ids."""
    live = {row.shard for row in rows if row.shard is not None}
    open_shards = {key: last for key, last in state.open_shards.items() if last[0] in live}
    next_number = dict(state.next_number)
    placed = []
    for row in rows:
        bucket = row.sample.bucket
        if row.shard is None and row.sample.source_key in wanted:
            place = f"{bucket.name}/{row.split}"
            shard, places = open_shards.get(place, ("", settings.shard_size[bucket.tier]))
            if places >= settings.shard_size[bucket.tier]:
                number = next_number.get(bucket.name, 0)
                next_number[bucket.name] = number + 1
                shard, places = f"g{state.generation}-{bucket.name}-{number:06d}", 0
            open_shards[place] = (shard, places + 1)
            placed.append(replace(row, shard=shard))
        else:
            placed.append(row)
    placed.sort(key=lambda row: (row.shard is None, row.shard or "", row.sample_id))
    return Plan(tuple(placed), replace(state, next_number=next_number, open_shards=open_shards))
