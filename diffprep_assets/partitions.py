"""Names, partitions and options that every stage of a dataset shares."""

from collections.abc import Sequence
from typing import Any

import dagster as dg

from diffprep_assets.freshness import FORMAT_VERSIONS
from diffprep_assets.recipe.names import asset_group_name

PARTS = ("download", "bucket")
SHARDS = ("encode_latents", "encode_text", "shard")


def parts_of(dataset: str) -> dg.DynamicPartitionsDefinition:
    """The dataset's parts, registered by `source_index`."""
    return dg.DynamicPartitionsDefinition(name=f"{dataset}_parts")


def shards_of(dataset: str) -> dg.DynamicPartitionsDefinition:
    """The dataset's shards, registered by `shard_plan`."""
    return dg.DynamicPartitionsDefinition(name=f"{dataset}_shards")


def stage_key(dataset: str, stage: str) -> dg.AssetKey:
    return dg.AssetKey([dataset, stage])


def whole_stage(dataset: str, stage: str, *, reads: Sequence[str], kind: str) -> dict[str, Any]:
    """Options of an asset that is made as a whole."""
    return {
        "key": stage_key(dataset, stage),
        "group_name": asset_group_name(dataset),
        "kinds": {kind},
        "code_version": FORMAT_VERSIONS[stage],
        "deps": [stage_key(dataset, read) for read in reads],
        # A range run of shards takes whole stages along; all its assets need one policy.
        "backfill_policy": dg.BackfillPolicy.single_run(),
    }


def partitioned_stage(
    dataset: str, stage: str, *, reads: Sequence[str], kind: str
) -> dict[str, Any]:
    """Options of an asset that records each partition itself, through shard_events."""
    parts = stage in PARTS
    return {
        **whole_stage(dataset, stage, reads=reads, kind=kind),
        "partitions_def": parts_of(dataset) if parts else shards_of(dataset),
        "output_required": False,
        "dagster_type": dg.Nothing,
    }


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
