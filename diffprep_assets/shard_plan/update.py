"""The plan brought up to the bucket tables."""

from collections import Counter
from dataclasses import dataclass

import pyarrow.parquet as pq

from diffprep_assets.bucket.table import read_metadata
from diffprep_assets.bucket.worker import bucket_task, bucket_version
from diffprep_assets.dataset import Dataset
from diffprep_assets.freshness import fingerprint
from diffprep_assets.recipe.stage_fields import bucket_fields
from diffprep_assets.rejects import bucket_rejects, write_rejects
from diffprep_assets.shard_plan.candidates import kept_samples
from diffprep_assets.shard_plan.plan import Plan, PlannedShard, planned_shards, updated_plan
from diffprep_assets.shard_plan.table import (
    read_head,
    read_plan,
    read_shards,
    write_plan,
    write_shards,
)
from diffprep_assets.source_index.table import SourceIndex
from diffprep_assets.stage_inputs import missing_partitions
from diffprep_resources.errors import DiffprepError


@dataclass(frozen=True, slots=True)
class PlanUpdate:
    """What planning came to. `rejects` are those of `bucket`, by code."""

    digest: str
    generation: int
    shards: list[PlannedShard]
    listed: int
    rejects: Counter[str]
    changed: bool


def update_plan(dataset: Dataset, index: SourceIndex) -> PlanUpdate:
    """The plan now on disk, holding exactly what `bucket` kept.

    Raises StageInputError when a bucket table is missing or stale, DiffprepError when every
    sample was rejected.
    """
    layout = dataset.layout
    parts = index.parts.parts
    made_from = bucket_fingerprints(dataset, index)
    stale = [part for part, (found, wanted) in made_from.items() if found != wanted or not wanted]
    if stale:
        raise missing_partitions(dataset, "bucket", stale, unit="parts")
    tables = [(part, layout.bucket(part)) for part in parts]
    listed = sum(pq.read_metadata(path).num_rows for _, path in tables)
    rejects = write_rejects(layout.rejects, bucket_rejects(tables))
    if sum(rejects.values()) == listed:
        reasons = ", ".join(f"{code} {count}" for code, count in rejects.most_common())
        raise DiffprepError(
            f"{dataset.name}: 0 samples to write: {listed} listed, all rejected ({reasons}); "
            f"{layout.rejects} names each"
        )
    versions = {part: bucket_version(layout.bucket(part)) for part in parts}
    wanted = plan_fingerprint(dataset, versions)
    head = read_head(layout.shard_plan)
    changed = head is None or head["fingerprint"] != wanted
    if changed:
        plan = updated_plan(
            read_plan(layout.shard_plan), kept_samples(tables), dataset.plan_settings
        )
        _write(dataset, plan, wanted)
    elif head is not None and (read_head(layout.shards) or {}).get("plan_digest") != head["digest"]:
        _write(dataset, read_plan(layout.shard_plan), wanted)
    head = read_head(layout.shard_plan) or {}
    return PlanUpdate(
        digest=head["digest"],
        generation=head["state"]["generation"],
        shards=read_shards(layout.shards),
        listed=listed,
        rejects=rejects,
        changed=changed,
    )


def _write(dataset: Dataset, plan: Plan, wanted: str) -> None:
    digest = write_plan(
        dataset.layout.shard_plan, plan, fingerprint=wanted, settings=dataset.plan_fields
    )
    shards = planned_shards(plan.samples)
    write_shards(dataset.layout.shards, shards, plan_digest=digest)


def bucket_fingerprints(
    dataset: Dataset, index: SourceIndex
) -> dict[str, tuple[str | None, str | None]]:
    """For each part the fingerprint its bucket table carries, and the one it should."""
    layout, settings = dataset.layout, bucket_fields(dataset.recipe)
    result: dict[str, tuple[str | None, str | None]] = {}
    for part in index.parts.parts:
        limit = index.parts.limits.get(part)
        task = bucket_task(layout, part, settings=settings, limit=limit)
        metadata = read_metadata(layout.bucket(part))
        found = metadata["fingerprint"] if metadata else None
        result[part] = found, task.fingerprint if task else None
    return result


def plan_fingerprint(dataset: Dataset, bucket: dict[str, str | None]) -> str:
    """The fingerprint of the plan over bucket tables of these versions."""
    return fingerprint("shard_plan", settings=dataset.plan_fields, inputs=bucket)
