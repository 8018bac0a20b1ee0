"""The append-only plan: which sample sits in which shard (DESIGN 6).

A pure function of the old plan, the bucket tables and the recipe: the same history gives the same
rows. A sample keeps its id and split for ever; places once given are not given again.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

import xxhash

from diffprep_assets.shard_plan.splits import shuffled, splits_of_groups


@dataclass(frozen=True, slots=True)
class Bucket:
    """One output size, in pixels, within a resolution tier."""

    tier: int
    width: int
    height: int

    @property
    def name(self) -> str:
        return f"{self.tier}-{self.width}x{self.height}"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A sample that `bucket` kept. `crop` is (left, top, width, height) in upright pixels."""

    source_key: str
    group: str
    part: str
    image_digest: str
    caption_digest: str
    bucket: Bucket
    crop: tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class PlannedSample:
    """A sample that was ever planned; `shard` is None while it is not in the dataset.

    `former` names the shards that it was in before, latest first: its encoded rows may be there.
    """

    sample_id: int
    split: str
    shard: str | None
    sample: Candidate
    former: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Its name in the published shards."""
        return f"{self.sample_id:010d}"


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """The recipe fields that the plan depends on. `generation_key` is the JSON of those that deal
    every sample to a shard anew when they change."""

    generation_key: str
    shard_size: Mapping[int, int]
    shuffle_seed: int | None
    shares: Mapping[str, Fraction]
    split_seed: int


@dataclass(frozen=True, slots=True)
class PlanState:
    """What must outlive the shards themselves.

    `next_number` counts within a bucket over all splits and generations; `open_shards` gives, for
    each `<bucket>/<split>` of this generation, its last shard and the places given there so far.
    """

    generation: int = -1
    generation_key: str = ""
    next_sample_id: int = 0
    next_number: Mapping[str, int] = field(default_factory=dict)
    open_shards: Mapping[str, tuple[str, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Plan:
    """All samples, sorted by (shard, sample_id) with absent ones last, and the state."""

    samples: tuple[PlannedSample, ...]
    state: PlanState


EMPTY_PLAN = Plan(samples=(), state=PlanState())


def updated_plan(old: Plan, candidates: Iterable[Candidate], settings: PlanSettings) -> Plan:
    """The plan that holds exactly `candidates`, moving as little as possible.

    `candidates` come in source order: by part, then by place in the part.
    """
    known = {planned.sample.source_key: planned for planned in old.samples}
    new: dict[str, Candidate] = {}
    present: dict[str, Candidate] = {}
    for candidate in candidates:
        present[candidate.source_key] = candidate
        if candidate.source_key not in known:
            new[candidate.source_key] = candidate
    splits = _splits_of_new(new, known, present, settings)
    state = _state_of_generation(old.state, settings)
    stays = state.generation == old.state.generation
    rows = [_carried_over(planned, present, stays=stays) for planned in old.samples]
    order = new if settings.shuffle_seed is None else shuffled(new, seed=settings.shuffle_seed)
    rows += [
        PlannedSample(state.next_sample_id + number, splits[new[key].group], None, new[key])
        for number, key in enumerate(order)
    ]
    state = replace(state, next_sample_id=state.next_sample_id + len(new))
    return _placed(rows, present, state, settings)


def _splits_of_new(
    new: Mapping[str, Candidate],
    known: Mapping[str, PlannedSample],
    present: Mapping[str, Candidate],
    settings: PlanSettings,
) -> dict[str, str]:
    """The split of every group that has a new sample; a newcomer takes its group's split."""
    group_splits = {planned.sample.group: planned.split for planned in known.values()}
    taken: dict[str, int] = {}
    for key, candidate in present.items():
        split = known[key].split if key in known else group_splits.get(candidate.group)
        if split is not None:
            taken[split] = taken.get(split, 0) + 1
    fresh: dict[str, int] = {}
    for candidate in new.values():
        if candidate.group not in group_splits:
            fresh[candidate.group] = fresh.get(candidate.group, 0) + 1
    chosen = splits_of_groups(fresh, known=taken, shares=settings.shares, seed=settings.split_seed)
    return group_splits | chosen


def _state_of_generation(state: PlanState, settings: PlanSettings) -> PlanState:
    if state.generation_key == settings.generation_key:
        return state
    return replace(
        state,
        generation=state.generation + 1,
        generation_key=settings.generation_key,
        open_shards={},
    )


def _carried_over(
    planned: PlannedSample, present: Mapping[str, Candidate], *, stays: bool
) -> PlannedSample:
    """An old sample as it is now: it keeps its place while its bucket and generation last."""
    candidate = present.get(planned.sample.source_key)
    if candidate is not None and stays and candidate.bucket == planned.sample.bucket:
        return replace(planned, sample=candidate)
    former = (planned.shard, *planned.former) if planned.shard else planned.former
    return replace(planned, sample=candidate or planned.sample, shard=None, former=former)


def _placed(
    rows: list[PlannedSample],
    present: Mapping[str, Candidate],
    state: PlanState,
    settings: PlanSettings,
) -> Plan:
    """Every present sample without a place gets one, in the order of ids."""
    live = {row.shard for row in rows if row.shard is not None}
    open_shards = {key: last for key, last in state.open_shards.items() if last[0] in live}
    next_number = dict(state.next_number)
    placed = []
    for row in rows:
        bucket = row.sample.bucket
        if row.shard is None and row.sample.source_key in present:
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


@dataclass(frozen=True, slots=True)
class PlannedShard:
    """One shard of the plan. The digests cover its rows in order, and decide what is stale:
    `pictures_digest` for latents, `captions_digest` for text, `members_digest` for the tar."""

    shard: str
    bucket: Bucket
    number: int
    split: str
    num_samples: int
    pictures_digest: str
    captions_digest: str
    members_digest: str


def planned_shards(samples: Iterable[PlannedSample]) -> list[PlannedShard]:
    """The shards of samples sorted by shard, in order of shard key."""
    shards: list[PlannedShard] = []
    rows: list[PlannedSample] = []
    for row in samples:
        if rows and row.shard != rows[0].shard:
            shards.append(_summary(rows))
            rows = []
        if row.shard is not None:
            rows.append(row)
    if rows:
        shards.append(_summary(rows))
    return shards


def _summary(rows: list[PlannedSample]) -> PlannedShard:
    pictures, captions, members = xxhash.xxh3_128(), xxhash.xxh3_128(), xxhash.xxh3_128()
    for row in rows:
        sample = row.sample
        bucket = sample.bucket
        pictures.update(
            f"{row.sample_id} {sample.image_digest} {bucket.name} {sample.crop}\n".encode()
        )
        captions.update(f"{row.sample_id} {sample.caption_digest}\n".encode())
        members.update(f"{row.sample_id} {sample.source_key}\n".encode())
    shard = rows[0].shard or ""
    pictures_digest, captions_digest = pictures.hexdigest(), captions.hexdigest()
    members.update(f"{pictures_digest} {captions_digest}".encode())
    return PlannedShard(
        shard=shard,
        bucket=rows[0].sample.bucket,
        number=int(shard.rsplit("-", 1)[1]),
        split=rows[0].split,
        num_samples=len(rows),
        pictures_digest=pictures_digest,
        captions_digest=captions_digest,
        members_digest=members.hexdigest(),
    )
