"""shard_plan: the one join, from parts to shards; shard_members: what it says of each shard."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import dagster as dg
from pydantic import Field

from diffprep_assets.dataset import Dataset
from diffprep_assets.dataset_locks import StepLocks
from diffprep_assets.event_pictures import bucket_chart, plan_pictures
from diffprep_assets.partitions import mark_run, shards_of, stage_key, sync_partitions, whole_stage
from diffprep_assets.recipe.names import asset_group_name
from diffprep_assets.shard_events import DATA_VERSION, changed_observations
from diffprep_assets.shard_plan.inputs import caption_columns
from diffprep_assets.shard_plan.plan import PlannedShard
from diffprep_assets.shard_plan.split_groups import mixed_warning
from diffprep_assets.shard_plan.splits import empty_splits
from diffprep_assets.shard_plan.update import PlanUpdate, update_plan
from diffprep_assets.source_index.table import read_index
from diffprep_assets.stage_inputs import missing_whole_stage
from diffprep_resources.progress.base import Progress, SampleCounts

PICTURES = ("pictures", "bucket_chart")


class PlanConfig(dg.Config):
    """Execution settings of one launch."""

    drop_skipped: bool = Field(
        False, description="skipped samples leave their shards, which are then written anew"
    )


def shard_members_spec(dataset: Dataset) -> dg.AssetSpec:
    """The asset that no step makes: without it one new picture would make every shard stale."""
    return dg.AssetSpec(
        stage_key(dataset.name, "shard_members"),
        deps=[stage_key(dataset.name, "shard_plan")],
        partitions_def=shards_of(dataset.name),
        group_name=asset_group_name(dataset.name),
        kinds={"parquet"},
        description="The samples of one shard, as the plan has them; observed by shard_plan.",
    )


def shard_plan_asset(dataset: Dataset, *, wait_minutes: float) -> dg.AssetsDefinition:
    """The asset that assigns samples to shards."""

    columns = ["source_columns"] if caption_columns(dataset) else []
    reads = ["bucket", *columns, "curate"]

    @whole_stage(dataset.name, "shard_plan", reads=reads, kind="parquet")
    def shard_plan(
        context: dg.AssetExecutionContext,
        config: PlanConfig,
        progress: dg.ResourceParam[Progress],
    ) -> Iterator[Any]:
        """Which sample sits in which shard; append-only."""
        layout, log = dataset.layout, context.log.info
        mark_run(context, dataset.loaded.recipe_hash)
        locks = StepLocks(dataset.layout, "shard_plan", context.run.run_id, wait_minutes, log)
        with (
            locks.alone(),
            progress.stage("shard_plan", log=log) as shown,
        ):
            index = read_index(layout.source_index)
            if index is None:
                raise missing_whole_stage(dataset, "source_index")
            update = update_plan(dataset, index, drop_skipped=config.drop_skipped)
            planned = update.planned
            shown.summary.samples = SampleCounts(planned, planned, reused=planned)
            digests = {shard.shard: shard.observed_digest for shard in update.shards}
            sync_partitions(context.instance, shards_of(dataset.name), sorted(digests))
            members = stage_key(dataset.name, "shard_members")
            yield from changed_observations(context, members, digests)
        shown.tell(f"shard_plan: {planned} samples in {len(update.shards)} shards")
        if update.skipped:
            shown.tell(f"shard_plan: {update.skipped} of them skipped")
        if mixed := mixed_warning(update.mixed):
            shown.tell(f"shard_plan: {mixed}")
        shares = dataset.plan_settings.shares
        for split in empty_splits(shares, (shard.split for shard in update.shards)):
            shown.tell(f"shard_plan: split {split} is empty")
        yield dg.MaterializeResult(
            data_version=dg.DataVersion(update.digest),
            metadata={
                **_pictures(context, dataset, update),
                **plan_metadata(update),
                "rejects_file": dg.MetadataValue.path(str(layout.rejects)),
                "seconds": round(shown.summary.seconds, 3),
                "recipe_hash": dataset.loaded.recipe_hash,
            },
        )

    return shard_plan


def _pictures(
    context: dg.AssetExecutionContext, dataset: Dataset, update: PlanUpdate
) -> dict[str, Any]:
    """What the plan looks like: those of the last event where that was of the same plan."""
    last = context.instance.get_latest_materialization_event(context.asset_key)
    known = last.asset_materialization if last else None
    if known is not None and (known.tags or {}).get(DATA_VERSION) == update.digest:
        shown = {name: known.metadata[name] for name in PICTURES if name in known.metadata}
        if len(shown) == len(PICTURES):
            return shown
    pictures = plan_pictures(dataset, update.shards)
    chart = {"bucket_chart": dg.MetadataValue.md(bucket_chart(update.shards))}
    return chart | ({"pictures": dg.MetadataValue.md(pictures)} if pictures else {})


def plan_metadata(update: PlanUpdate) -> dict[str, Any]:
    """The numbers of a plan."""
    return {
        "samples_in": update.listed,
        "samples_out": update.planned,
        "skipped": update.skipped,
        "groups_in_several_splits": update.mixed.groups,
        "rejected": sum(update.rejects.values()),
        "rejects": dict(sorted(update.rejects.items())),
        "shards": len(update.shards),
        "generation": update.generation,
        "splits": dict(_samples(update.shards, lambda shard: shard.split)),
        "buckets": dict(_samples(update.shards, lambda shard: shard.bucket.name)),
    }


def _samples(shards: list[PlannedShard], of: Any) -> Counter[str]:
    counts: Counter[str] = Counter()
    for shard in shards:
        counts[of(shard)] += shard.num_samples
    return counts
