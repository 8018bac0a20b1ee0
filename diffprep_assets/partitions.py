"""Names, partitions and options that every stage of a dataset shares."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import dagster as dg
from pydantic import Field

from diffprep_assets.recipe.names import asset_group_name

Decorator = Callable[[Callable[..., Any]], dg.AssetsDefinition]

# Pinned by pyproject.toml and tested; said once for each asset, it would hide what matters.
warnings.filterwarnings("ignore", message="Parameter `backfill_policy`", category=dg.BetaWarning)

RECIPE_HASH = "diffprep/recipe_hash"

PARTS = ("download", "bucket", "source_columns", "picture_hash")


class RetryConfig(dg.Config):
    """Execution settings of one launch of a stage that may leave samples out."""

    retry_rejects: bool = Field(
        False, description="try samples again whose reject may have been passing"
    )


def parts_of(dataset: str) -> dg.DynamicPartitionsDefinition:
    """The dataset's parts, registered by `source_index`."""
    return dg.DynamicPartitionsDefinition(name=f"{dataset}_parts")


def shards_of(dataset: str) -> dg.DynamicPartitionsDefinition:
    """The dataset's shards, registered by `shard_plan`."""
    return dg.DynamicPartitionsDefinition(name=f"{dataset}_shards")


def stage_key(dataset: str, stage: str) -> dg.AssetKey:
    return dg.AssetKey([dataset, stage])


def whole_stage(
    dataset: str,
    stage: str,
    *,
    reads: Sequence[str],
    kind: str,
    check_specs: Sequence[dg.AssetCheckSpec] = (),
) -> Decorator:
    """Makes an asset that is written as a whole; `reads` names the stages before it."""
    return _asset(dataset, stage, reads, kind, check_specs=list(check_specs))


def partitioned_stage(
    dataset: str,
    stage: str,
    *,
    reads: Sequence[str],
    kind: str,
    pool: str | None = None,
    op_tags: Mapping[str, Any] | None = None,
) -> Decorator:
    """Makes an asset that records each partition itself, through shard_events."""
    return _asset(
        dataset,
        stage,
        reads,
        kind,
        partitions_def=parts_of(dataset) if stage in PARTS else shards_of(dataset),
        output_required=False,
        dagster_type=dg.Nothing,
        pool=pool,
        op_tags=op_tags,
    )


def _asset(dataset: str, stage: str, reads: Sequence[str], kind: str, **options: Any) -> Decorator:
    decorator: Any = dg.asset
    return decorator(
        key=stage_key(dataset, stage),
        group_name=asset_group_name(dataset),
        kinds={kind},
        deps=[stage_key(dataset, read) for read in reads],
        # A range run of shards takes whole stages along; all its assets need one policy.
        backfill_policy=dg.BackfillPolicy.single_run(),
        **options,
    )


def mark_run(context: dg.AssetExecutionContext, recipe_hash: str) -> None:
    """Tag the run with the recipe that it works by, however it was launched."""
    context.instance.add_run_tags(context.run.run_id, {RECIPE_HASH: recipe_hash})


def sync_partitions(
    instance: dg.DagsterInstance, definition: dg.DynamicPartitionsDefinition, keys: Sequence[str]
) -> None:
    """Register exactly `keys`, which are sorted: a range follows the order of registration."""
    name = definition.name or ""
    known = instance.get_dynamic_partitions(name)
    wanted = set(keys)
    for key in known:
        if key not in wanted:
            instance.delete_dynamic_partition(name, key)
    new = [key for key in keys if key not in set(known)]
    if new:
        instance.add_dynamic_partitions(name, new)
