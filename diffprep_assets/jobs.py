"""The three runs that make a dataset, and the job that makes them with one click."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg

from diffprep_assets.dataset_graph import DatasetGraph
from diffprep_assets.dataset_locks import StepLocks, forget_run, run_lock, runs_that_died
from diffprep_assets.layout import Layout
from diffprep_assets.leftovers import clear_leftovers
from diffprep_assets.partitions import (
    PARTS,
    RECIPE_HASH,
    parts_of,
    shards_of,
    stage_key,
    sync_partitions,
)
from diffprep_assets.project import Project
from diffprep_assets.recipe.formats import (
    ENCODE_STAGES,
    SHARD_STAGE,
    part_stages,
    prepare_stages,
    shard_stages,
)
from diffprep_assets.recipe.names import asset_group_name
from diffprep_assets.recipe.schema import Recipe
from diffprep_assets.stop_signals import STOPPED, noticed_stop, same_handlers, stop_is_asked
from diffprep_assets.way_out import with_way_out
from diffprep_resources.errors import DiffprepError
from diffprep_resources.gpu_pool.file_lease import num_devices
from diffprep_resources.progress.log import LogProgress

POOL = "gpu"
RANGE_START = "dagster/asset_partition_range_start"
RANGE_END = "dagster/asset_partition_range_end"
PARENT = "diffprep/parent"
# Marks runs that are made under the dataset's run lock.
DATASET = "diffprep/dataset"

Runs = tuple[tuple[str | None, tuple[str, ...]], ...]


def runs_of(recipe: Recipe, *, plan_only: bool = False) -> Runs:
    """The runs that make a dataset; with `plan_only` those that end with the plan, before anything
    is encoded."""
    planning: Runs = (
        (None, ("source_index",)),
        ("parts", (*part_stages(recipe), "curate", "shard_plan")),
    )
    if plan_only:
        return planning
    return *planning, ("shards", (*shard_stages(recipe), *prepare_stages(recipe), "validate"))


@dataclass(frozen=True, slots=True)
class MadeDataset:
    """How the three runs went: `error` is the first failed stage and its message."""

    error: tuple[str, str] | None


def make_dataset(
    graph: DatasetGraph,
    *,
    instance: dg.DagsterInstance,
    resources: Mapping[str, Any],
    encode_config: Mapping[str, Any] | None = None,
    tags: Mapping[str, str] | None = None,
    plan_only: bool = False,
) -> MadeDataset:
    """The dataset made by its runs in this process, one after another; stops at a failed one.

    The caller holds the dataset's run lock.
    """
    name = graph.dataset.name
    bury_dead_runs(instance, graph.dataset.layout)
    clear_leftovers(graph.dataset.layout)
    definitions = dg.Definitions(assets=graph.assets, resources=resources)
    job = definitions.resolve_implicit_global_asset_job_def()
    with noticed_stop():
        for unit, stages in runs_of(graph.dataset.recipe, plan_only=plan_only):
            if stop_is_asked():
                return MadeDataset(("run", STOPPED))
            with same_handlers():
                result = job.execute_in_process(
                    instance=instance,
                    asset_selection=[stage_key(name, stage) for stage in stages],
                    tags=_run_tags(graph, instance, unit) | dict(tags or {}),
                    run_config=_run_config(name, stages, encode_config),
                    raise_on_error=False,
                )
            if not result.success:
                stage, message = _first_error(result)
                return MadeDataset((stage, STOPPED if stop_is_asked() else message))
    return MadeDataset(None)


def _run_tags(
    graph: DatasetGraph, instance: dg.DagsterInstance, unit: str | None
) -> dict[str, str]:
    """The tags of a run over all partitions of a unit, or over none."""
    name = graph.dataset.name
    tags = {RECIPE_HASH: graph.dataset.loaded.recipe_hash, DATASET: name}
    if unit is None:
        return tags
    ends = partition_range(instance, name, unit)
    if ends is None:
        raise DiffprepError(f"{name}: no {unit} are registered")
    return tags | {RANGE_START: ends[0], RANGE_END: ends[1]}


def bury_dead_runs(instance: dg.DagsterInstance, layout: Layout) -> list[str]:
    """Ids of runs of this dataset that were killed, now recorded as failed, their slots free.

    The caller holds the dataset's run lock, so that no run that it covers is alive.
    """
    covered = dg.RunsFilter(
        statuses=[
            dg.DagsterRunStatus.NOT_STARTED,
            dg.DagsterRunStatus.STARTING,
            dg.DagsterRunStatus.STARTED,
            dg.DagsterRunStatus.CANCELING,
        ],
        tags={DATASET: layout.dataset},
    )
    dead = {run.run_id for run in instance.get_runs(covered)}
    for run_id in sorted(dead | set(runs_that_died(layout))):
        run = instance.get_run_by_id(run_id)
        if run is not None and not run.is_finished:
            instance.report_run_failed(run, message="The process was killed.")
            dead.add(run_id)
        if instance.event_log_storage.supports_global_concurrency_limits:
            instance.event_log_storage.free_concurrency_slots_for_run(run_id)
        forget_run(layout, run_id)
    return sorted(dead)


def set_pool_limit(instance: dg.DagsterInstance, num_devices: int) -> None:
    """As many steps of the `gpu` pool at once as there are devices; a step takes one at least."""
    storage = instance.event_log_storage
    if not storage.supports_global_concurrency_limits:
        return
    limits = {info.name: info.limit for info in storage.get_pool_limits()}
    if limits.get(POOL) != num_devices:
        storage.set_concurrency_slots(POOL, num_devices)


def partition_range(
    instance: dg.DagsterInstance, dataset: str, unit: str
) -> tuple[str, str] | None:
    """First and last registered partition, in the order that a range follows."""
    keys = partition_keys(instance, dataset, unit)
    return (keys[0], keys[-1]) if keys else None


def partition_keys(instance: dg.DagsterInstance, dataset: str, unit: str) -> list[str]:
    """Registered partitions, in the order that a range follows."""
    definition = parts_of(dataset) if unit == "parts" else shards_of(dataset)
    return list(instance.get_dynamic_partitions(definition.name or ""))


def make_job(graph: DatasetGraph, *, project: Project) -> dg.JobDefinition:
    """`<dataset>_make`: the three runs behind one click, one command, or a schedule."""
    dataset = graph.dataset

    @dg.op(
        name=f"{asset_group_name(dataset.name)}_make_dataset",
        required_resource_keys={"engines"},
    )
    def make(context: dg.OpExecutionContext) -> None:
        log, minutes = context.log.info, project.lock_wait_minutes
        locks = StepLocks(dataset.layout, "make", context.run_id, minutes, log)
        holder = f"job {context.job_name}, run {context.run_id}"
        with (
            locks.living(),
            run_lock(dataset.layout, holder=holder, wait_minutes=minutes, log=log),
        ):
            resources = {
                "engines": context.resources.engines,
                # Each of the three runs has its own log; who started the job looks at this one.
                "progress": LogProgress(echo=log),
            }
            set_pool_limit(context.instance, num_devices(project.devices))
            made = make_dataset(
                graph,
                instance=context.instance,
                resources=resources,
                tags={PARENT: context.run_id},
            )
        if made.error:
            stage, message = made.error
            raise dg.Failure(description=f"{stage}: {message}", allow_retries=False)

    @dg.job(
        name=f"{asset_group_name(dataset.name)}_make",
        description=f"Makes dataset {dataset.name}, redoing only what is stale.",
        tags={RECIPE_HASH: dataset.loaded.recipe_hash},
    )
    def make_job() -> None:
        make()

    return make_job


def schedule_of(graph: DatasetGraph, job: dg.JobDefinition) -> dg.ScheduleDefinition | None:
    """The schedule of the recipe's cron line, running from the start; None when it has none."""
    cron = graph.dataset.recipe.schedule
    if cron is None:
        return None
    return dg.ScheduleDefinition(
        name=f"{job.name}_schedule",
        job=job,
        cron_schedule=cron,
        default_status=dg.DefaultScheduleStatus.RUNNING,
    )


def _run_config(
    name: str, stages: tuple[str, ...], encode_config: Mapping[str, Any] | None
) -> dict[str, Any]:
    config: dict[str, Any] = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
    given = dict(encode_config or {})
    plan = {key: given.pop(key) for key in ("drop_skipped",) if key in given}
    retry = {key: value for key, value in given.items() if key == "retry_rejects"}
    of_stage = {**dict.fromkeys(ENCODE_STAGES, given), "bucket": retry, "shard_plan": plan}
    of_stage |= dict.fromkeys(SHARD_STAGE.values(), retry)
    config["ops"] = {
        f"{asset_group_name(name)}__{stage}": {"config": of_stage[stage]}
        for stage in stages
        if of_stage.get(stage)
    }
    return config


def _first_error(result: dg.ExecuteInProcessResult) -> tuple[str, str]:
    """The first failed step's stage, and its message without Dagster's wrapping."""
    for event in result.all_events:
        if event.event_type == dg.DagsterEventType.STEP_FAILURE:
            stage = (event.step_key or "run").rsplit("__", 1)[-1]
            data = event.step_failure_data
            if data.error is not None and data.error.cls_name == "DagsterExecutionInterruptedError":
                return stage, STOPPED
            failure = data.user_failure_data
            if failure is not None and failure.description:
                return stage, with_way_out(failure.description)
            error = data.error
            # Below Dagster's own errors is ours; what that was raised from says less.
            while error is not None and error.cause is not None and _is_dagsters(error.cls_name):
                error = error.cause
            if error is None:
                return stage, "failed"
            # The message begins with the error's class, in full.
            words = error.message.strip()
            return stage, with_way_out(words.partition(f"{error.cls_name}: ")[2] or words)
    return "run", "failed before its first stage"


def _is_dagsters(class_name: str | None) -> bool:
    return (class_name or "").startswith("Dagster")


def instance() -> dg.DagsterInstance:
    """The instance of DAGSTER_HOME; a context manager."""
    return dg.DagsterInstance.get()


def failed_partitions(dataset: str, stage: str) -> set[str]:
    """Partitions whose last try failed, as Dagster's log has it."""
    partitions = parts_of(dataset) if stage in PARTS else shards_of(dataset)
    with instance() as dagster_instance:
        statuses = dagster_instance.get_status_by_partition(
            stage_key(dataset, stage),
            dagster_instance.get_dynamic_partitions(partitions.name or ""),
            partitions,
        )
    return {key for key, status in (statuses or {}).items() if status and status.value == "FAILED"}


def register_partitions(
    dataset: str, *, parts: Sequence[str] | None, shards: Sequence[str] | None
) -> None:
    """Register exactly these parts and shards, sorted, in the instance of DAGSTER_HOME; None leaves
    what is registered."""
    with instance() as dagster_instance:
        for definition, keys in ((parts_of(dataset), parts), (shards_of(dataset), shards)):
            if keys is not None:
                sync_partitions(dagster_instance, definition, keys)
