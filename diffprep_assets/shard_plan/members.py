"""The samples of one shard with all that encoding and writing need of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import pyarrow.parquet as pq

from diffprep_assets.layout import Layout
from diffprep_assets.shard_plan.plan import ClipPlan, PlannedSample
from diffprep_assets.shard_plan.table import samples_of_shard
from diffprep_resources.errors import SourceChangedError
from diffprep_resources.sources.base import Location

COLUMNS = [
    "source_key",
    "caption",
    "caption_digest",
    "image_digest",
    "original_width",
    "original_height",
    "path",
    "offset",
    "length",
    "row",
]
# Those that a table from before there were clips has not.
CLIP_COLUMNS = ["fps", "duration_s"]


@dataclass(frozen=True, slots=True)
class Member:
    """One sample of a shard. Sizes in upright stored pixels; `location` is where its picture or
    clip lies. `fps` and `duration_s` are the clip's own, None of a picture."""

    planned: PlannedSample
    caption: str
    original_width: int
    original_height: int
    location: Location
    fps: Fraction | None = None
    duration_s: float | None = None

    @property
    def clip(self) -> ClipPlan | None:
        """Which frames are taken; None of a picture."""
        return self.planned.sample.clip


def members_of_shard(layout: Layout, shard: str) -> list[Member]:
    """The shard's samples by sample_id.

    Raises SourceChangedError when `bucket` ran since the plan was made and saw something else.
    """
    planned = samples_of_shard(layout.shard_plan, shard)
    rows = dict(_bucket_rows(layout, planned))
    members = []
    for row in planned:
        found = rows.get(row.sample.source_key)
        if found is None or (found["image_digest"], found["caption_digest"]) != (
            row.sample.image_digest,
            row.sample.caption_digest,
        ):
            raise SourceChangedError(
                f"source changed since shard_plan: {row.sample.source_key}; "
                f"run `diffprep run {layout.dataset}`, which plans again"
            )
        location = Location(found["path"], found["offset"], found["length"], found["row"])
        fps = found.get("fps")
        members.append(
            Member(
                row,
                found["caption"],
                found["original_width"],
                found["original_height"],
                location,
                fps=Fraction(fps) if fps else None,
                duration_s=found.get("duration_s"),
            )
        )
    return members


def _bucket_rows(layout: Layout, planned: list[PlannedSample]) -> Iterator[tuple[str, dict]]:
    by_part: dict[str, list[str]] = {}
    for row in planned:
        by_part.setdefault(row.sample.part, []).append(row.sample.source_key)
    for part, keys in by_part.items():
        path = layout.bucket(part)
        columns = [*COLUMNS, *(set(CLIP_COLUMNS) & set(pq.read_schema(path).names))]
        table = pq.read_table(path, columns=columns, filters=[("source_key", "in", keys)])
        for row in table.to_pylist():
            yield row["source_key"], row
