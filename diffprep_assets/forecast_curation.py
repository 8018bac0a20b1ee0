"""What a run would do to the stages between `bucket` and `shard_plan`, and why."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from diffprep_assets.changes import changed_settings
from diffprep_assets.curate.inputs import asks_for_rules, skip_files, verdicts_are_fresh
from diffprep_assets.curate.table import read_head
from diffprep_assets.dataset import Dataset
from diffprep_assets.partition_worker import PartitionTask
from diffprep_assets.picture_hash.worker import hash_task
from diffprep_assets.recipe.formats import needs_columns, needs_hashes
from diffprep_assets.recipe.stage_fields import columns_fields, curate_fields, hash_fields
from diffprep_assets.shard_plan.candidates import CandidateFacts
from diffprep_assets.shard_plan.inputs import candidate_facts, caption_columns, curate_input
from diffprep_assets.source_columns.worker import columns_task
from diffprep_assets.stage_state import StageForecast, State, state_of
from diffprep_resources.storage.parquet_tables import table_head


@dataclass(slots=True)
class CurationForecast:
    """The stages that the recipe has, by name; `facts` are what the plan would be made with.

    `is_known` is false where verdicts are to come that may be others than those on disk.
    """

    stages: dict[str, StageForecast] = field(default_factory=dict)
    facts: CandidateFacts = field(default_factory=CandidateFacts)
    plan_inputs: dict[str, str | None] = field(default_factory=dict)
    is_known: bool = True


def forecast_curation(dataset: Dataset, buckets: Mapping[str, State]) -> CurationForecast:
    """The forecast, given the state of each part's bucket table."""
    layout, result = dataset.layout, CurationForecast()
    if needs_columns(dataset.recipe):
        asked = columns_fields(dataset.recipe)
        stage = result.stages["source_columns"] = StageForecast()
        for part, state in buckets.items():
            task = columns_task(layout, part, source=dataset.source, settings=asked)
            _add(stage, part, layout.source_columns(part), bucket=state, task=task)
    if needs_hashes(dataset.recipe):
        asked = hash_fields(dataset.recipe)
        stage = result.stages["picture_hash"] = StageForecast()
        for part, state in buckets.items():
            task = hash_task(layout, part, settings=asked)
            _add(stage, part, layout.picture_hash(part), bucket=state, task=task)
    is_ready = set(buckets.values()) == {"fresh"} and all(
        stage.is_fresh for stage in result.stages.values()
    )
    result.stages["curate"] = _curate(dataset, list(buckets), is_ready=is_ready)
    if asks_for_rules(dataset):
        result.is_known = result.stages["curate"].is_fresh
        result.facts = candidate_facts(dataset)
        result.plan_inputs |= curate_input(read_head(layout.curate))
    else:
        result.facts = CandidateFacts({}, layout, caption_columns(dataset))
    if caption_columns(dataset):
        columns = result.stages["source_columns"]
        for part, state in columns.states.items():
            head = table_head(layout.source_columns(part)) if state == "fresh" else None
            result.plan_inputs[f"source_columns/{part}"] = head["fingerprint"] if head else None
        result.is_known = result.is_known and columns.is_fresh
    return result


def _add(
    stage: StageForecast, part: str, path: Path, *, bucket: State, task: PartitionTask | None
) -> None:
    head = table_head(path)
    if bucket != "fresh" or task is None:
        state: State = "stale" if head is not None else "missing"
        stage.add(part, state, ["bucket is to be done again"] if head else ["never made"])
        return
    state = state_of(head["fingerprint"] if head else None, task.fingerprint)
    stage.add(part, state, ["its samples changed"] if head else ["never made"])
    if state != "fresh":
        stage.to_encode += task.num_samples


def _curate(dataset: Dataset, parts: list[str], *, is_ready: bool) -> StageForecast:
    stage = StageForecast()
    head = read_head(dataset.layout.curate)
    if is_ready and verdicts_are_fresh(dataset, parts):
        stage.add("curate", "fresh")
        return stage
    if head is None:
        stage.add("curate", "missing", ["never made"])
        return stage
    reasons = changed_settings(head["settings"], curate_fields(dataset.recipe))
    if not is_ready:
        reasons.append("samples changed")
    elif not reasons:
        listed = {*head["skip_lists"], *skip_files(dataset)}
        reasons = ["skip lists changed"] if listed else ["samples changed"]
    stage.add("curate", "stale", reasons)
    return stage
