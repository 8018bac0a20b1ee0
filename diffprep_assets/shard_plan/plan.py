"""What the plan holds: its samples, its shards, and what must outlive them (DESIGN 6)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

import xxhash


@dataclass(frozen=True, slots=True)
class Bucket:
    """One output size, in pixels, within a resolution tier; of clips, `frames` long, which is 0 of
    pictures."""

    tier: int
    width: int
    height: int
    frames: int = 0

    @property
    def size(self) -> str:
        return sized(self.width, self.height, self.frames)

    @property
    def name(self) -> str:
        return f"{self.tier}-{self.size}"


def sized(width: int, height: int, frames: int = 0) -> str:
    """A size as it is written everywhere: `832x480`, of clips `832x480x77`."""
    return f"{width}x{height}x{frames}" if frames else f"{width}x{height}"


@dataclass(frozen=True, slots=True)
class ClipPlan:
    """Which frames of a clip are taken, in order: when each is shown, in ticks of its stream. Some
    repeat."""

    wanted_pts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A sample that `bucket` kept. `crop` is (left, top, width, height) in upright pixels.

    `clip` is None of a picture; the `image_digest` of a clip covers its whole bytes. Samples of one
    `group` share a split. `columns_digest` is of the source's own columns that an output holds; ""
    when none does.
    """

    source_key: str
    group: str
    part: str
    image_digest: str
    caption_digest: str
    bucket: Bucket
    crop: tuple[int, int, int, int]
    columns_digest: str = ""
    clip: ClipPlan | None = None


@dataclass(frozen=True, slots=True)
class PlannedSample:
    """A sample that was ever planned; `shard` is None while it is not in the dataset.

    `former` names the shards that it was in before, latest first: its encoded rows may be there.
    `skipped` is the rule against a sample that stays written, but no trainer is to see.
    """

    sample_id: int
    split: str
    shard: str | None
    sample: Candidate
    former: tuple[str, ...] = ()
    skipped: str | None = None

    @property
    def key(self) -> str:
        """Its name in the published shards."""
        return f"{self.sample_id:010d}"


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """The recipe fields that the plan depends on. `generation_key` is the JSON of those that deal
    every sample to a shard anew when they change, `split_key` of those that deal every split anew
    where `resplit` asks for it."""

    generation_key: str
    shard_size: Mapping[int, int]
    shuffle_seed: int | None
    shares: Mapping[str, Fraction]
    split_seed: int
    split_key: str = ""
    resplit: bool = False


@dataclass(frozen=True, slots=True)
class PlanState:
    """What must outlive the shards themselves.

    `next_number` counts within a bucket over all splits and generations; `open_shards` gives, for
    each `<bucket>/<split>` of this generation, its last shard and the places given there so far.
    `split_key` is that of the settings by which all splits were dealt last.
    """

    generation: int = -1
    generation_key: str = ""
    next_sample_id: int = 0
    next_number: Mapping[str, int] = field(default_factory=dict)
    open_shards: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    split_key: str = ""


@dataclass(frozen=True, slots=True)
class SplitLeak:
    """A sample that was left out, since its group has samples of more than one split. `sample_id`
    is None unless it was planned before."""

    source_key: str
    part: str
    group: str
    splits: tuple[str, ...]
    sample_id: int | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """All samples, sorted by (shard, sample_id) with absent ones last, and the state. `leaks` are
    those that were not planned for what their group is, by source_key."""

    samples: tuple[PlannedSample, ...]
    state: PlanState
    leaks: tuple[SplitLeak, ...] = ()


EMPTY_PLAN = Plan(samples=(), state=PlanState())


@dataclass(frozen=True, slots=True)
class PlannedShard:
    """One shard of the plan. The digests cover its rows in order, and decide what is stale:
    `pictures_digest` for latents, `captions_digest` for text, `members_digest` for the tar.

    `columns_digest` covers the source's own columns, "" without any; `skips_digest` the samples
    that are skipped and why, "" without any. The first three cover neither: a skip rewrites
    nothing.
    """

    shard: str
    bucket: Bucket
    number: int
    split: str
    num_samples: int
    pictures_digest: str
    captions_digest: str
    members_digest: str
    num_skipped: int = 0
    skips_digest: str = ""
    columns_digest: str = ""

    @property
    def observed_digest(self) -> str:
        """What `shard_members` is observed as: all that a stage writes into some shard file."""
        if not self.columns_digest:
            return self.members_digest
        return xxhash.xxh3_128_hexdigest(f"{self.members_digest} {self.columns_digest}".encode())


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
        frames = f" {sample.clip.wanted_pts}" if sample.clip else ""
        pictures.update(
            f"{row.sample_id} {sample.image_digest} {bucket.name} {sample.crop}{frames}\n".encode()
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
        num_skipped=sum(row.skipped is not None for row in rows),
        skips_digest=_digest(f"{row.sample_id} {row.skipped}" for row in rows if row.skipped),
        columns_digest=_columns_digest(rows),
    )


def _columns_digest(rows: list[PlannedSample]) -> str:
    if not any(row.sample.columns_digest for row in rows):
        return ""
    return _digest(f"{row.sample_id} {row.sample.columns_digest}" for row in rows)


def _digest(lines: Iterable[str]) -> str:
    """The digest of the lines; "" where there are none."""
    hasher, some = xxhash.xxh3_128(), False
    for line in lines:
        hasher.update(f"{line}\n".encode())
        some = True
    return hasher.hexdigest() if some else ""
