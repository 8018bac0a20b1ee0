"""Records each partition of a stage the moment it is done, with what it was made from.

The only file that touches Dagster's private parts (tried on 1.13.28, pinned by pyproject.toml and
held by tests/diffprep_assets/test_shard_events.py): a `MaterializeResult` would come at the end,
with one data version for all.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import dagster as dg
from dagster._core.events import AssetMaterializationPlannedData, DagsterEvent
from dagster._core.execution.plan.objects import TypeCheckData
from dagster._core.execution.plan.outputs import StepOutputData, StepOutputHandle

from diffprep_assets.partition_run import Done, Failed

DATA_VERSION = "dagster/data_version"
CODE_VERSION = "dagster/code_version"
USER_PROVIDED = "dagster/data_version_is_user_provided"
INPUT_VERSION = "dagster/input_data_version/"
INPUT_POINTER = "dagster/input_event_pointer/"
BACKFILL = "dagster/backfill"
MATERIALIZED = dg.DagsterEventType.ASSET_MATERIALIZATION
RECORDS_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Upstream:
    """What a stage reads: an asset with the same partitions, or a whole one; observed when no
    step makes it."""

    key: dg.AssetKey
    partitioned: bool
    observed: bool = False

    @property
    def event_type(self) -> dg.DagsterEventType:
        if self.observed:
            return dg.DagsterEventType.ASSET_OBSERVATION
        return MATERIALIZED


def recorded(
    context: dg.AssetExecutionContext,
    results: Iterable[Done | Failed],
    *,
    upstreams: Iterable[Upstream],
) -> Iterator[Any]:
    """Dagster's events for the results as they come, then the step's output.

    A reused partition gets an event only when the log knows another version of it, of its code or
    of an input, or when a backfill waits for it. Raises dg.Failure at the end, naming the failed
    ones.
    """
    upstreams = tuple(upstreams)
    log = _Log(context, upstreams)
    partitions = set(context.partition_keys)
    failures: list[Failed] = []
    for result in results:
        if isinstance(result, Failed):
            failures.append(result)
            if result.key in partitions:
                _show_as_failed(context, result.key)
            continue
        tags = log.tags(result.key, result.fingerprint)
        if result.reused and not log.needs_event(result.key, tags):
            continue
        metadata = {**result.metadata, "reused": result.reused}
        yield dg.AssetMaterialization(
            context.asset_key, partition=result.key, metadata=metadata, tags=tags
        )
    if failures:
        raise _failure(context, failures)
    yield _output(context)


def _output(context: dg.AssetExecutionContext) -> DagsterEvent:
    """The step's only output, as an event of its own: a yielded `Output` would record every
    partition again with another data version, and none at all would skip what comes after. Without
    the result of a type check, the web UI shows no log at all of such a run."""
    step = context.op_execution_context._step_execution_context
    handle = StepOutputHandle(step.step.key, "result")
    checked = TypeCheckData(success=True, label="result")
    return DagsterEvent.step_output_event(step, StepOutputData(handle, type_check_data=checked))


def _show_as_failed(context: dg.AssetExecutionContext, key: str) -> None:
    """A planned event for this key alone, which the step's failure then turns into FAILED."""
    step = context.op_execution_context._step_execution_context
    event = DagsterEvent.build_asset_materialization_planned_event(
        step.job_name,
        step.step.key,
        AssetMaterializationPlannedData(asset_key=context.asset_key, partition=key),
    )
    context.instance.report_dagster_event(event, run_id=context.run.run_id)


def _failure(context: dg.AssetExecutionContext, failures: list[Failed]) -> dg.Failure:
    stage = context.asset_key.path[-1]
    named = "; ".join(f"{failure.key}: {failure.reason}" for failure in failures[:5])
    more = f"; and {len(failures) - 5} more" if len(failures) > 5 else ""
    return dg.Failure(
        description=f"{stage}: {len(failures)} failed: {named}{more}",
        metadata={failure.key: failure.reason for failure in failures[:100]},
        allow_retries=False,
    )


class _Log:
    """What the event log knows of this asset's partitions and of their inputs, read once."""

    def __init__(self, context: dg.AssetExecutionContext, upstreams: tuple[Upstream, ...]) -> None:
        self._instance = context.instance
        self._storage = context.instance.event_log_storage
        self._asset = context.asset_key
        self._code_version = context.assets_def.code_versions_by_key[context.asset_key] or ""
        self._in_backfill = BACKFILL in context.run.tags
        keys = list(context.partition_keys)
        self._versions = self._data_versions(context.asset_key, MATERIALIZED, keys)
        self._pointers = self._storage.get_latest_storage_id_by_partition(
            context.asset_key, MATERIALIZED, set(keys)
        )
        self._inputs: list[Callable[[str], dict[str, str]]] = [
            self._reader(upstream, keys) for upstream in upstreams
        ]
        self._recorded: dict[int, Mapping[str, str]] | None = None

    def tags(self, key: str, fingerprint: str) -> dict[str, str]:
        tags = {
            DATA_VERSION: fingerprint,
            CODE_VERSION: self._code_version,
            USER_PROVIDED: "true",
        }
        for read in self._inputs:
            tags |= read(key)
        return tags

    def needs_event(self, key: str, tags: Mapping[str, str]) -> bool:
        """Whether the log's last event of a reused partition says something else than `tags`."""
        if self._in_backfill or self._versions.get(key) != tags[DATA_VERSION]:
            return True
        recorded = self._recorded_tags().get(self._pointers[key], {})
        versions = {
            name: value
            for name, value in tags.items()
            if name == CODE_VERSION or name.startswith(INPUT_VERSION)
        }
        return any(recorded.get(name) != value for name, value in versions.items())

    def _recorded_tags(self) -> Mapping[int, Mapping[str, str]]:
        """The tags of the partitions' last events, by storage id; fetched when first asked for.

        The storage looks up only data versions by partition, so these come with whole events.
        """
        if self._recorded is None:
            self._recorded = {}
            pointers = sorted(self._pointers.values())
            for start in range(0, len(pointers), RECORDS_AT_ONCE):
                some = pointers[start : start + RECORDS_AT_ONCE]
                found = self._instance.fetch_materializations(
                    dg.AssetRecordsFilter(asset_key=self._asset, storage_ids=some), limit=len(some)
                )
                for record in found.records:
                    event = record.asset_materialization
                    self._recorded[record.storage_id] = (event and event.tags) or {}
        return self._recorded

    def _data_versions(
        self, asset: dg.AssetKey, event_type: dg.DagsterEventType, keys: list[str]
    ) -> dict[str, str]:
        found = self._storage.get_latest_tags_by_partition(
            asset, event_type, [DATA_VERSION], asset_partitions=keys
        )
        return {key: tags[DATA_VERSION] for key, tags in found.items()}

    def _reader(self, upstream: Upstream, keys: list[str]) -> Callable[[str], dict[str, str]]:
        """Gives the input tags of one partition."""
        name = upstream.key.to_user_string()
        if not upstream.partitioned:
            whole = self._whole(upstream)
            return lambda _: _input_tags(name, *whole)
        versions = self._data_versions(upstream.key, upstream.event_type, keys)
        pointers = self._storage.get_latest_storage_id_by_partition(
            upstream.key, upstream.event_type, set(keys)
        )
        return lambda key: _input_tags(name, versions.get(key), pointers.get(key))

    def _whole(self, upstream: Upstream) -> tuple[str | None, int | None]:
        record = self._storage.get_asset_records([upstream.key])
        entry = record[0].asset_entry.last_materialization_record if record else None
        if entry is None or entry.asset_materialization is None:
            return None, None
        tags = entry.asset_materialization.tags or {}
        return tags.get(DATA_VERSION), entry.storage_id


def _input_tags(name: str, version: str | None, pointer: int | None) -> dict[str, str]:
    if version is None:
        return {}
    return {
        INPUT_VERSION + name: version,
        INPUT_POINTER + name: "NULL" if pointer is None else str(pointer),
    }


def changed_observations(
    context: dg.AssetExecutionContext, asset: dg.AssetKey, versions: Mapping[str, str]
) -> Iterator[dg.AssetObservation]:
    """One observation per partition whose data version differs from the last one observed."""
    known = context.instance.event_log_storage.get_latest_tags_by_partition(
        asset,
        dg.DagsterEventType.ASSET_OBSERVATION,
        [DATA_VERSION],
        asset_partitions=list(versions),
    )
    for key, version in versions.items():
        if known.get(key, {}).get(DATA_VERSION) != version:
            yield dg.AssetObservation(asset, partition=key, tags={DATA_VERSION: version})
