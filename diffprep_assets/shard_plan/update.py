"""The plan brought up to the bucket tables and the verdicts."""

from collections import Counter
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import pyarrow.parquet as pq

from diffprep_assets.curate.inputs import verdicts_are_fresh
from diffprep_assets.curate.table import iter_verdicts
from diffprep_assets.dataset import Dataset
from diffprep_assets.rejects import (
    bucket_rejects,
    curate_rejects,
    leak_rejects,
    rejects_before_encoding,
    write_rejects,
)
from diffprep_assets.shard_plan.candidates import kept_samples
from diffprep_assets.shard_plan.inputs import (
    bucket_fingerprints,
    candidate_facts,
    input_versions,
    plan_fingerprint,
)
from diffprep_assets.shard_plan.plan import Plan, PlannedShard, planned_shards
from diffprep_assets.shard_plan.planning import updated_plan
from diffprep_assets.shard_plan.skipped import skipped_keys
from diffprep_assets.shard_plan.split_groups import MixedGroups
from diffprep_assets.shard_plan.table import (
    mixed_in_plan,
    read_head,
    read_plan,
    read_shards,
    write_plan,
    write_shards,
)
from diffprep_assets.shard_plan.written import curation_of
from diffprep_assets.source_index.table import SourceIndex
from diffprep_assets.stage_inputs import how_to_make, missing_partitions
from diffprep_resources.errors import DiffprepError, StageInputError


@dataclass(frozen=True, slots=True)
class PlanUpdate:
    """What planning came to. `rejects` are those of the stages up to this one, by code; `mixed` the
    groups that lay in several splits before they were groups, and stay there."""

    digest: str
    generation: int
    shards: list[PlannedShard]
    listed: int
    rejects: Counter[str]
    changed: bool
    mixed: MixedGroups

    @property
    def planned(self) -> int:
        """Samples in the shards, skipped ones too."""
        return sum(shard.num_samples for shard in self.shards)

    @property
    def skipped(self) -> int:
        """Samples in the shards that no trainer gets."""
        return sum(shard.num_skipped for shard in self.shards)


def update_plan(dataset: Dataset, index: SourceIndex, *, drop_skipped: bool = False) -> PlanUpdate:
    """The plan now on disk, holding exactly what `bucket` and `curate` kept, and what is skipped;
    with `drop_skipped` nothing is.

    Raises StageInputError when what it reads is missing or stale, DiffprepError when no sample is
    left to serve.
    """
    layout = dataset.layout
    tables = _tables(dataset, index)
    listed = sum(pq.read_metadata(path).num_rows for _, path in tables)
    wanted = plan_fingerprint(dataset, input_versions(dataset, index.parts.parts))
    head = read_head(layout.shard_plan)
    changed = head is None or head["fingerprint"] != wanted
    if changed or (drop_skipped and skipped_keys(layout.shard_plan)):
        plan = _planned(dataset, tables, drop_skipped=drop_skipped)
        if not any(row.shard and not row.skipped for row in plan.samples):
            raise _nothing_to_serve(dataset, tables, plan, listed=listed)
        _write(dataset, plan, wanted)
    elif head is not None and (read_head(layout.shards) or {}).get("plan_digest") != head["digest"]:
        _write(dataset, read_plan(layout.shard_plan), wanted)
    rejects = write_rejects(layout.rejects, rejects_before_encoding(layout, tables))
    head = read_head(layout.shard_plan) or {}
    return PlanUpdate(
        digest=head["digest"],
        generation=head["state"]["generation"],
        shards=read_shards(layout.shards),
        listed=listed,
        rejects=rejects,
        changed=changed,
        mixed=mixed_in_plan(layout.shard_plan),
    )


def _tables(dataset: Dataset, index: SourceIndex) -> list[tuple[str, Path]]:
    """The bucket tables by part. Raises StageInputError unless they and the verdicts are fresh."""
    made_from = bucket_fingerprints(dataset, index)
    stale = [part for part, (found, wanted) in made_from.items() if found != wanted or not wanted]
    if stale:
        raise missing_partitions(dataset, "bucket", stale, unit="parts")
    if not verdicts_are_fresh(dataset, index.parts.parts):
        how = how_to_make(dataset.name, "curate")
        raise StageInputError(f"{dataset.name}: curate is missing or stale; run {how}")
    return [(part, dataset.layout.bucket(part)) for part in index.parts.parts]


def _planned(dataset: Dataset, tables: list[tuple[str, Path]], *, drop_skipped: bool) -> Plan:
    layout = dataset.layout
    old = read_plan(layout.shard_plan)
    facts = candidate_facts(dataset)
    curation = curation_of(dataset, old, facts.verdicts, drop_skipped=drop_skipped)
    return updated_plan(old, kept_samples(tables, facts), dataset.plan_settings, curation)


def _nothing_to_serve(
    dataset: Dataset, tables: list[tuple[str, Path]], plan: Plan, *, listed: int
) -> DiffprepError:
    """The error of a plan that would serve no sample; the view of rejects says why."""
    layout = dataset.layout
    skipped = {row.sample.source_key for row in plan.samples if row.skipped}
    verdicts = curate_rejects(iter_verdicts(layout.curate), skipped=skipped)
    left_out = chain(bucket_rejects(tables), verdicts, leak_rejects(plan.leaks))
    rejects = write_rejects(layout.rejects, left_out)
    reasons = ", ".join(f"{code} {count}" for code, count in rejects.most_common())
    if not skipped:
        return DiffprepError(
            f"{dataset.name}: 0 samples to write: {listed} listed, all rejected ({reasons}); "
            f"{layout.rejects} names each"
        )
    return DiffprepError(
        f"{dataset.name}: 0 samples to serve: {listed} listed, {len(skipped)} of them written and "
        f"skipped{f', the others rejected ({reasons})' if reasons else ''}. Nothing was changed; "
        f"`diffprep unskip {dataset.name}` names the lists"
    )


def _write(dataset: Dataset, plan: Plan, wanted: str) -> None:
    digest = write_plan(
        dataset.layout.shard_plan, plan, fingerprint=wanted, settings=dataset.plan_fields
    )
    shards = planned_shards(plan.samples)
    write_shards(dataset.layout.shards, shards, plan_digest=digest)
