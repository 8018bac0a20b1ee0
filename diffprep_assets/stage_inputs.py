"""The refusals of a stage whose input is missing or stale: what, and the command that makes it."""

from collections.abc import Sequence

from diffprep_assets.dataset import Dataset
from diffprep_assets.shard_plan.plan import PlannedShard
from diffprep_assets.shard_plan.table import read_head, read_shards
from diffprep_resources.errors import StageInputError


def missing_whole_stage(dataset: Dataset, stage: str) -> StageInputError:
    """The error that says how to make a whole stage that is missing."""
    return StageInputError(
        f"{dataset.name}: {stage} is missing; run {how_to_make(dataset.name, stage)}"
    )


def missing_partitions(
    dataset: Dataset, stage: str, keys: Sequence[str], *, unit: str
) -> StageInputError:
    """The error that names partitions of a stage that are missing or stale."""
    named = ", ".join(keys[:5]) + (f" and {len(keys) - 5} more" if len(keys) > 5 else "")
    partitions = f' --partition-range "$(diffprep range {dataset.name} {unit})"'
    return StageInputError(
        f"{dataset.name}: {stage} is missing or stale for {len(keys)} {unit}: {named}; "
        f"run {how_to_make(dataset.name, stage, partitions)}"
    )


def how_to_make(dataset: str, stage: str, partitions: str = "") -> str:
    """The commands that make a stage; `partitions` is the option that names them."""
    return (
        f"`diffprep run {dataset}`, or `dagster asset materialize -m diffprep_assets.definitions "
        f"--select {dataset}/{stage}{partitions}`"
    )


def shards_of_plan(dataset: Dataset) -> list[PlannedShard]:
    """The plan's shards. Raises StageInputError when there is no whole plan."""
    plan, view = read_head(dataset.layout.shard_plan), read_head(dataset.layout.shards)
    if plan is None or view is None or plan["digest"] != view["plan_digest"]:
        raise missing_whole_stage(dataset, "shard_plan")
    return read_shards(dataset.layout.shards)


def planned(dataset: Dataset, keys: Sequence[str]) -> list[PlannedShard]:
    """The shards of these keys. Raises StageInputError for a key that the plan does not hold."""
    shards = {shard.shard: shard for shard in shards_of_plan(dataset)}
    unknown = [key for key in keys if key not in shards]
    if unknown:
        raise StageInputError(
            f"{dataset.name}: the plan holds no shard {', '.join(unknown[:5])}; "
            f"`diffprep range {dataset.name} shards` gives those that it holds"
        )
    return [shards[key] for key in keys]
