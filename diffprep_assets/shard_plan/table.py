"""The plan on disk: `shard_plan.parquet` is the truth, `shards.parquet` a view of its shards.

Both carry the plan's digest. The plan is written first; while the two disagree the plan counts
as missing, and `shard_plan` writes the view again.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import xxhash

from diffprep_assets.recipe.stage_fields import split_key
from diffprep_assets.shard_plan.plan import (
    EMPTY_PLAN,
    Bucket,
    Candidate,
    ClipPlan,
    Plan,
    PlannedSample,
    PlannedShard,
    PlanState,
    SplitLeak,
)
from diffprep_assets.shard_plan.split_groups import MixedGroups, mixed_groups
from diffprep_resources.storage.atomic import replace_file
from diffprep_resources.storage.parquet_tables import readable_table, table_head

ROWS_PER_GROUP = 16_384

PLAN_SCHEMA = pa.schema(
    [
        pa.field("sample_id", pa.int64(), nullable=False),
        pa.field("shard", pa.string()),
        pa.field("split", pa.string(), nullable=False),
        pa.field("source_key", pa.string(), nullable=False),
        pa.field("group", pa.string(), nullable=False),
        pa.field("part", pa.string(), nullable=False),
        pa.field("image_digest", pa.string(), nullable=False),
        pa.field("caption_digest", pa.string(), nullable=False),
        pa.field("tier", pa.int32(), nullable=False),
        pa.field("width", pa.int32(), nullable=False),
        pa.field("height", pa.int32(), nullable=False),
        pa.field("crop_left", pa.int32(), nullable=False),
        pa.field("crop_top", pa.int32(), nullable=False),
        pa.field("crop_width", pa.int32(), nullable=False),
        pa.field("crop_height", pa.int32(), nullable=False),
        # Shards that the sample was in before, latest first.
        pa.field("former", pa.list_(pa.string()), nullable=False),
        # The rule against a sample that stays written, unseen by trainers.
        pa.field("skipped", pa.string()),
        pa.field("columns_digest", pa.string(), nullable=False),
        # Of clips: how many frames the bucket has, and when they are shown.
        pa.field("frames", pa.int32(), nullable=False),
        pa.field("wanted_pts", pa.list_(pa.int64())),
    ]
)
# A table from before they were has none of these.
NEWER_COLUMNS = {"skipped": None, "columns_digest": "", "frames": 0, "wanted_pts": None}

SHARDS_SCHEMA = pa.schema(
    [
        pa.field("shard", pa.string(), nullable=False),
        pa.field("tier", pa.int32(), nullable=False),
        pa.field("width", pa.int32(), nullable=False),
        pa.field("height", pa.int32(), nullable=False),
        pa.field("frames", pa.int32(), nullable=False),
        pa.field("number", pa.int64(), nullable=False),
        pa.field("split", pa.string(), nullable=False),
        pa.field("num_samples", pa.int64(), nullable=False),
        pa.field("pictures_digest", pa.string(), nullable=False),
        pa.field("captions_digest", pa.string(), nullable=False),
        pa.field("members_digest", pa.string(), nullable=False),
        pa.field("num_skipped", pa.int64(), nullable=False),
        pa.field("skips_digest", pa.string(), nullable=False),
        pa.field("columns_digest", pa.string(), nullable=False),
    ]
)


def write_plan(
    path: Path, plan: Plan, *, fingerprint: str, settings: Mapping[str, Any] | None = None
) -> str:
    """The digest of the plan now at `path`. The same plan gives the same bytes.

    `settings` are the recipe fields that it was made with, kept to tell what changed.
    """
    rows = [_plan_row(planned) for planned in plan.samples]
    digest = _digest(plan.state, rows)
    head = {
        "state": asdict(plan.state),
        "digest": digest,
        "fingerprint": fingerprint,
        "settings": dict(settings or {}),
        "leaks": [asdict(leak) for leak in plan.leaks],
    }
    _write(path, pa.Table.from_pylist(rows, schema=PLAN_SCHEMA), head)
    return digest


def _digest(state: PlanState, rows: Iterable[dict[str, Any]]) -> str:
    """The digest of a plan. What is newer than the first plans counts only where it is not the
    default: a plan that does not use it has the digest that it always had."""
    told = {name: value for name, value in asdict(state).items() if name != "split_key"}
    hasher = xxhash.xxh3_128(json.dumps(told, sort_keys=True).encode())
    for row in rows:
        first = tuple(value for name, value in row.items() if name not in NEWER_COLUMNS)
        newer = {name: row[name] for name, none in NEWER_COLUMNS.items() if row[name] != none}
        hasher.update(f"{first!r}{newer or ''}".encode())
    return hasher.hexdigest()


def read_plan(path: Path) -> Plan:
    """The plan at `path`; an empty one when there is none."""
    head = read_head(path)
    if head is None:
        return EMPTY_PLAN
    state = {"split_key": split_key(head["settings"]), **head["state"]}
    open_shards = {place: (shard, given) for place, (shard, given) in state["open_shards"].items()}
    samples = tuple(_planned(row) for row in _rows(path))
    return Plan(samples, PlanState(**{**state, "open_shards": open_shards}), leaks_of(head))


def leaks_of(head: Mapping[str, Any]) -> tuple[SplitLeak, ...]:
    """What stands in a plan's head of samples that were left out for their group's splits."""
    return tuple(
        SplitLeak(**{**leak, "splits": tuple(leak["splits"])}) for leak in head.get("leaks", ())
    )


def write_shards(path: Path, shards: Iterable[PlannedShard], *, plan_digest: str) -> None:
    """The view of the plan's shards."""
    rows = [{**asdict(shard), **asdict(shard.bucket)} for shard in shards]
    for row in rows:
        del row["bucket"]
    table = pa.Table.from_pylist(rows, schema=SHARDS_SCHEMA)
    _write(path, table, {"plan_digest": plan_digest})


def read_shards(path: Path) -> list[PlannedShard]:
    """The shards of the view, sorted by key; none when there is no view."""
    if read_head(path) is None:
        return []
    return [PlannedShard(bucket=_bucket(row), **_but_bucket(row)) for row in _rows(path)]


def read_head(path: Path) -> dict[str, Any] | None:
    """What stands in a table's metadata; None when there is no whole table."""
    return table_head(path)


def samples_of_shard(path: Path, shard: str) -> list[PlannedSample]:
    """The plan's rows of one shard, by sample_id; reads only the row groups that may hold it."""
    table = pq.read_table(path, filters=[("shard", "==", shard)])
    return [_planned(row) for row in table.to_pylist()]


def mixed_in_plan(path: Path) -> MixedGroups:
    """The groups whose samples lie in several splits, skipped samples left aside."""
    table = pq.read_table(path, columns=["group", "split", "shard"], filters=_served(path))
    pairs = table.group_by(["group", "split"]).aggregate([])
    several = pairs.group_by("group").aggregate([("split", "count")])
    names = several.filter(pc.field("split_count") > 1).column("group")
    mixed = pairs.filter(pc.field("group").isin(names.combine_chunks())).to_pylist()
    return mixed_groups((row["group"], row["split"]) for row in mixed)


def _served(path: Path) -> pc.Expression:
    served = pc.field("shard").is_valid()
    if "skipped" in pq.read_schema(path).names:
        served = served & pc.field("skipped").is_null()
    return served


def _write(path: Path, table: pa.Table, head: dict[str, Any]) -> None:
    metadata = {"diffprep": json.dumps(head, sort_keys=True)}
    with replace_file(path) as file:
        pq.write_table(
            table.replace_schema_metadata(metadata),
            file,
            compression="zstd",
            row_group_size=ROWS_PER_GROUP,
        )


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    with readable_table(path), pq.ParquetFile(path) as file:
        for batch in file.iter_batches(ROWS_PER_GROUP):
            yield from batch.to_pylist()


def _plan_row(planned: PlannedSample) -> dict[str, Any]:
    sample = planned.sample
    left, top, width, height = sample.crop
    return {
        "sample_id": planned.sample_id,
        "shard": planned.shard,
        "split": planned.split,
        "source_key": sample.source_key,
        "group": sample.group,
        "part": sample.part,
        "image_digest": sample.image_digest,
        "caption_digest": sample.caption_digest,
        "tier": sample.bucket.tier,
        "width": sample.bucket.width,
        "height": sample.bucket.height,
        "crop_left": left,
        "crop_top": top,
        "crop_width": width,
        "crop_height": height,
        "former": planned.former,
        "skipped": planned.skipped,
        "columns_digest": sample.columns_digest,
        "frames": sample.bucket.frames,
        "wanted_pts": sample.clip.wanted_pts if sample.clip else None,
    }


def _planned(row: dict[str, Any]) -> PlannedSample:
    row = NEWER_COLUMNS | row
    candidate = Candidate(
        source_key=row["source_key"],
        group=row["group"],
        part=row["part"],
        image_digest=row["image_digest"],
        caption_digest=row["caption_digest"],
        bucket=_bucket(row),
        crop=(row["crop_left"], row["crop_top"], row["crop_width"], row["crop_height"]),
        columns_digest=row["columns_digest"],
        clip=None if row["wanted_pts"] is None else ClipPlan(tuple(row["wanted_pts"])),
    )
    former = tuple(row["former"])
    return PlannedSample(
        row["sample_id"], row["split"], row["shard"], candidate, former, row["skipped"]
    )


def _bucket(row: Mapping[str, Any]) -> Bucket:
    """The bucket in a row of either table; one from before there were clips has no frames."""
    return Bucket(row["tier"], row["width"], row["height"], row.get("frames", 0))


def _but_bucket(row: Mapping[str, Any]) -> dict[str, Any]:
    of_bucket = {field.name for field in fields(Bucket)}
    return {name: value for name, value in row.items() if name not in of_bucket}
