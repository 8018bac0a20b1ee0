"""samples.jpg: a few of the dataset's pictures, or its clips' first frames, for its card.

The file says in its own comment which pictures it shows, so that it is drawn again only when the
choice is another: a changed caption reads no picture, and a source that is gone costs nothing.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import xxhash
from PIL import Image

from diffprep_assets.dataset import Dataset
from diffprep_assets.freshness import digest_of
from diffprep_assets.layout import Layout
from diffprep_assets.shard.record import ShardRecord
from diffprep_assets.shard_plan.members import Member, members_of_shard
from diffprep_assets.source_pictures import encoded_picture
from diffprep_resources.errors import DiffprepError
from diffprep_resources.pictures.contact_sheet import Tile, contact_sheet

NUM_PICTURES = 12
COLUMNS = 4
SIDE = 208
MAX_BYTES = 190_000
# Raise it when the sheet's looks change.
_COMMENT = b"diffprep samples 1 "
_START = b"\xff\xd8"


def card_pictures(dataset: Dataset, records: Sequence[ShardRecord], layout: Layout) -> bytes | None:
    """The sheet of the shards' pictures as it should be published in that layout; None for no
    sheet.

    At most NUM_PICTURES are read, one of each bucket in turn; one that cannot be read is left out.
    A file of somebody else's in its place is left alone.
    """
    path = layout.card_pictures
    if path.exists() and not is_ours(path):
        return None
    members = list(_chosen(dataset, records))
    choice = digest_of([_identity(member) for member in members])
    known = path.read_bytes() if path.exists() else b""
    if _is_whole(known, choice):
        return known
    tiles = list(_tiles(dataset, members))
    if not tiles:
        return None
    sheet = contact_sheet(tiles, columns=COLUMNS, side=SIDE, max_bytes=MAX_BYTES)
    return _with_comment(sheet, choice)


def is_ours(path: Path) -> bool:
    """Whether the file is such a sheet."""
    with path.open("rb") as file:
        return file.read(len(_START) + 4 + len(_COMMENT)).endswith(_COMMENT)


def _chosen(dataset: Dataset, records: Sequence[ShardRecord]) -> Iterator[Member]:
    """The members to show: in each shard those whose source_key has the lowest hash, so that more
    samples in a shard, or other captions, seldom change the choice."""
    for record, count in _places(records):
        rejected = {reject.source_key for reject in record.rejects}
        try:
            members = members_of_shard(dataset.layout, record.shard)
        except DiffprepError:
            continue
        written = [row for row in members if row.planned.sample.source_key not in rejected]
        written.sort(key=_place_of)
        yield from written[:count]


def _place_of(member: Member) -> int:
    return xxhash.xxh3_64_intdigest(member.planned.sample.source_key.encode())


def _places(records: Sequence[ShardRecord]) -> list[tuple[ShardRecord, int]]:
    """How many pictures to take of which shards: each bucket in turn, the largest first, and in a
    bucket each shard in turn."""
    buckets: dict[tuple[int, ...], list[ShardRecord]] = {}
    for record in records:
        if record.num_samples:
            buckets.setdefault(_bucket(record), []).append(record)
    order = sorted(buckets, key=lambda name: (-sum(r.num_samples for r in buckets[name]), name))
    queues = [[(record, record.num_samples) for record in buckets[name]] for name in order]
    taken: Counter[str] = Counter()
    while queues and taken.total() < NUM_PICTURES:
        queue = queues.pop(0)
        record, left = queue.pop(0)
        taken[record.shard] += 1
        if left > 1:
            queue.append((record, left - 1))
        if queue:
            queues.append(queue)
    return [(record, taken[record.shard]) for record in records if taken[record.shard]]


def _bucket(record: ShardRecord) -> tuple[int, ...]:
    return record.tier, record.width, record.height, record.frames


def _tiles(dataset: Dataset, members: Sequence[Member]) -> Iterator[Tile]:
    for member in members:
        try:
            picture = Image.fromarray(encoded_picture(dataset, member))
        except (DiffprepError, OSError):
            continue
        picture.thumbnail((SIDE, SIDE), Image.Resampling.LANCZOS)
        yield Tile(picture)


def _identity(member: Member) -> list[object]:
    sample = member.planned.sample
    frame = list(member.clip.wanted_pts[:1]) if member.clip else []
    return [
        *(member.planned.key, sample.image_digest, sample.bucket.name, list(sample.crop)),
        *frame,
    ]


def _with_comment(jpeg: bytes, choice: str) -> bytes:
    """The JPEG with a comment segment at its start: whose it is, of which pictures, its digest."""
    rest = jpeg.removeprefix(_START)
    text = _comment(rest, choice)
    return _START + b"\xff\xfe" + (len(text) + 2).to_bytes(2, "big") + text + rest


def _is_whole(data: bytes, choice: str) -> bool:
    length = len(_comment(b"", choice))
    rest = data[len(_START) + 4 + length :]
    return bool(data) and data[len(_START) + 4 :].startswith(_comment(rest, choice))


def _comment(rest: bytes, choice: str) -> bytes:
    return _COMMENT + f"{choice} {xxhash.xxh3_128_hexdigest(rest)}".encode()
