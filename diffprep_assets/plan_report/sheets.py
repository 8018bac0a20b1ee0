"""A contact sheet per bucket: what is kept, drawn over the original pictures or first frames."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from PIL import Image

from diffprep_assets.dataset import Dataset
from diffprep_assets.plan_report.facts import DISTORTED_BEYOND
from diffprep_assets.plan_report.kept_rows import ShownRow
from diffprep_assets.quantities import share_text
from diffprep_assets.shard_plan.plan import Bucket, ClipPlan
from diffprep_assets.source_pictures import source_picture
from diffprep_resources.errors import DiffprepError, SourceChangedError
from diffprep_resources.pictures.contact_sheet import Tile, contact_sheet, kept_part
from diffprep_resources.sources.base import Location

SIDE = 150
COLUMNS = 8
MOST_SHEETS = 40
FEW, MANY, ALL_TILES = 8, 24, 64
"""Pictures of a bucket, at least and at most, and of all together."""
ALL_BYTES = 3_500_000
ONE_BYTES = 160_000


@dataclass(frozen=True, slots=True)
class Sheet:
    """One bucket's JPEG; `shown` pictures are on it, `gone` ones could not be read again."""

    bucket: Bucket
    jpeg: bytes
    shown: int
    gone: int


def sheets(dataset: Dataset, chosen: Mapping[Bucket, Sequence[ShownRow]]) -> Iterator[Sheet]:
    """The sheets of the buckets in the order given, of at most forty, 3.5 MB together.

    With few buckets each shows more pictures.
    """
    buckets = list(chosen)[:MOST_SHEETS]
    each = min(MANY, ALL_TILES // max(1, len(buckets))) // COLUMNS * COLUMNS
    tiles_each = max(FEW, each)
    most = min(ONE_BYTES * tiles_each // FEW, ALL_BYTES // max(1, len(buckets)))
    for bucket in buckets:
        rows, tiles = chosen[bucket][:tiles_each], []
        for row in rows:
            try:
                tiles.append(_tile(dataset, row))
            except (DiffprepError, OSError):
                continue
        if tiles:
            jpeg = contact_sheet(tiles, columns=COLUMNS, side=SIDE, max_bytes=most)
            yield Sheet(bucket, jpeg, len(tiles), len(rows) - len(tiles))


def _tile(dataset: Dataset, row: ShownRow) -> Tile:
    """The picture or first frame, made small at once. Raises where it is not what `bucket` saw."""
    location = Location(row["path"], row["offset"], row["length"], row["row"])
    clip = ClipPlan(tuple(row["wanted_pts"])) if row["wanted_pts"] else None
    picture = source_picture(dataset, location, clip=clip)
    width, height = row["original_width"], row["original_height"]
    # A frame comes as it is shown, not as it is stored.
    if clip is None and picture.size != (width, height):
        raise SourceChangedError(f"source changed since bucket: {row['source_key']}")
    picture.thumbnail((2 * SIDE, 2 * SIDE), Image.Resampling.BOX)
    crop = (row["crop_left"], row["crop_top"], row["crop_width"], row["crop_height"])
    return Tile(picture, _label(row), kept_part(crop, width=width, height=height))


def _label(row: ShownRow) -> str:
    """The name in the source, and how much the picture is squeezed where that is much."""
    name = PurePosixPath(row["source_key"]).name
    if row["wanted_pts"]:
        return f"{row['duration_s']:.1f} s, {name}"
    grow = row["width"] / row["crop_width"], row["height"] / row["crop_height"]
    squeezed = max(grow) / min(grow) - 1
    return f"{share_text(squeezed)} off {name}" if squeezed > DISTORTED_BEYOND else name
