"""Pictures in Dagster's events: a few of a part or of the plan, first frames of clips, and the
plan's buckets as bars.

Every event is kept for good, so each picture is small, and none is made per shard.
"""

from base64 import b64encode
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import xxhash

from diffprep_assets.bucket.table import BucketRow, read_rows
from diffprep_assets.dataset import Dataset
from diffprep_assets.shard_plan.members import Member, members_of_shard
from diffprep_assets.shard_plan.plan import Bucket, ClipPlan, PlannedShard
from diffprep_assets.source_pictures import source_picture
from diffprep_resources.errors import DiffprepError
from diffprep_resources.pictures.bar_chart import bar_chart
from diffprep_resources.pictures.contact_sheet import Tile, contact_sheet, kept_part
from diffprep_resources.sources.base import FileStamp, Location

SIDE = 128
COLUMNS = 6
PICTURES_OF_PLAN = 18
PICTURES_OF_PART = 6
# Encoded for markdown they grow by a third; all pictures of one event are to stay under 60 KB.
BYTES_OF_PLAN = 36_000
BYTES_OF_PART = 15_000
CHART_WIDTH = 560
BARS = 24


@dataclass(frozen=True, slots=True)
class _Choice:
    """A picture to show: where it lies, the crop (left, top, width, height) of `size`, its bucket,
    and of a clip which frames are taken."""

    location: Location
    crop: tuple[int, int, int, int]
    size: tuple[int, int]
    label: str
    clip: ClipPlan | None


def part_pictures(dataset: Dataset, part: str) -> str | None:
    """Markdown of a few kept pictures of a part; None where none can be shown."""
    kept = [row for row in read_rows(dataset.layout.bucket(part)) if row.code is None]
    kept.sort(key=lambda row: xxhash.xxh3_64_intdigest(row.source_key.encode()))
    chosen = [_of_row(row) for row in kept[:PICTURES_OF_PART]]
    return _sheet(dataset, chosen, max_bytes=BYTES_OF_PART)


def plan_pictures(dataset: Dataset, shards: Sequence[PlannedShard]) -> str | None:
    """Markdown of a few pictures of a plan, each bucket in turn; None where none can be shown."""
    chosen = islice(_in_turn(dataset, shards), PICTURES_OF_PLAN)
    return _sheet(dataset, list(chosen), max_bytes=BYTES_OF_PLAN)


def bucket_chart(shards: Iterable[PlannedShard]) -> str:
    """Markdown of a bar chart: samples by bucket, the most frequent ones."""
    counts: Counter[str] = Counter()
    for shard in shards:
        counts[shard.bucket.name] += shard.num_samples
    rows = counts.most_common(BARS)
    rest = counts.total() - sum(count for _, count in rows)
    others = [(f"{len(counts) - BARS} others", rest)] if rest else []
    return _markdown("samples by bucket", "png", bar_chart([*rows, *others], width=CHART_WIDTH))


def _in_turn(dataset: Dataset, shards: Sequence[PlannedShard]) -> Iterator[_Choice]:
    """Pictures of the buckets in turn, that with the most samples first; of a bucket those in its
    first shard."""
    sizes: Counter[str] = Counter()
    firsts: dict[str, PlannedShard] = {}
    for shard in shards:
        sizes[shard.bucket.name] += shard.num_samples
        firsts.setdefault(shard.bucket.name, shard)
    buckets = [name for name, _ in sizes.most_common(PICTURES_OF_PLAN)]
    each = -(-PICTURES_OF_PLAN // max(1, len(buckets)))
    queues = [_members(dataset, firsts[name])[:each] for name in buckets]
    for place in range(each):
        yield from (_of_member(queue[place]) for queue in queues if place < len(queue))


def _members(dataset: Dataset, shard: PlannedShard) -> list[Member]:
    try:
        return members_of_shard(dataset.layout, shard.shard)
    except DiffprepError:
        return []


def _of_row(row: BucketRow) -> _Choice:
    crop = (
        *(row.crop_left or 0, row.crop_top or 0),
        *(row.crop_width or 1, row.crop_height or 1),
    )
    location = Location(row.path, row.offset, row.length, row.row)
    bucket = Bucket(row.tier or 0, row.width or 0, row.height or 0, row.num_frames or 0)
    clip = ClipPlan(row.wanted_pts) if row.wanted_pts else None
    size = (row.original_width or 1, row.original_height or 1)
    return _Choice(location, crop, size, bucket.name, clip)


def _of_member(member: Member) -> _Choice:
    sample = member.planned.sample
    size = (member.original_width, member.original_height)
    return _Choice(member.location, sample.crop, size, sample.bucket.name, member.clip)


def _sheet(dataset: Dataset, chosen: Sequence[_Choice], *, max_bytes: int) -> str | None:
    tiles = list(_tiles(dataset, chosen))
    if not tiles:
        return None
    columns = min(COLUMNS, len(tiles))
    jpeg = contact_sheet(tiles, columns=columns, side=SIDE, max_bytes=max_bytes)
    return _markdown("pictures, what is kept of each, its bucket", "jpeg", jpeg)


def _tiles(dataset: Dataset, chosen: Iterable[_Choice]) -> Iterator[Tile]:
    """The pictures that can be read without fetching anything; the others are left out."""
    for choice in chosen:
        if not dataset.source.are_here([FileStamp(choice.location.path, 0, 0, 0)]):
            continue
        try:
            picture = source_picture(dataset, choice.location, clip=choice.clip)
        except (DiffprepError, OSError):
            continue
        width, height = choice.size
        kept = kept_part(choice.crop, width=width, height=height)
        picture.thumbnail((SIDE, SIDE), reducing_gap=3.0)
        whole = kept == (0.0, 0.0, 1.0, 1.0)
        yield Tile(picture, choice.label, None if whole else kept)


def _markdown(words: str, kind: str, data: bytes) -> str:
    return f"![{words}](data:image/{kind};base64,{b64encode(data).decode('ascii')})"
