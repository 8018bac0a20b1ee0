"""What is fresh, stale or missing, by comparing files with the recipe. Runs nothing."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from diffprep_assets.dataset import Dataset
from diffprep_assets.download.table import read_fingerprint, stamps_fingerprint
from diffprep_assets.energon_prepare.update import prepared_fingerprint, published_fingerprint
from diffprep_assets.freshness import fingerprint
from diffprep_assets.shard.record import read_record
from diffprep_assets.shard.worker import finished_tar, shard_task
from diffprep_assets.shard_plan.plan import PlannedShard
from diffprep_assets.shard_plan.table import read_head, read_shards
from diffprep_assets.shard_plan.update import bucket_fingerprints, plan_fingerprint
from diffprep_assets.source_index.listing import listed_index
from diffprep_assets.source_index.table import SourceIndex, read_index
from diffprep_assets.validate.update import last_validation
from diffprep_resources.storage.row_file import read_header

State = Literal["fresh", "stale", "missing"]


@dataclass(slots=True)
class StageStatus:
    """The state of each partition of a stage; a whole stage has one, named after itself."""

    states: dict[str, State] = field(default_factory=dict)

    def counts(self) -> Counter[str]:
        return Counter(self.states.values())

    @property
    def is_fresh(self) -> bool:
        return bool(self.states) and set(self.states.values()) == {"fresh"}


def dataset_status(dataset: Dataset) -> dict[str, StageStatus]:
    """The status of every stage, in flow order.

    What lies behind a stale stage is judged by what is there now: a run may find more to do, since
    a shard's samples are known only once the plan is made.
    """
    index = read_index(dataset.layout.source_index)
    status = {"source_index": StageStatus({"source_index": _source_index(dataset, index)})}
    parts = index or SourceIndex(listed_index(dataset).parts)
    status["download"] = _downloads(dataset, parts)
    made_from = bucket_fingerprints(dataset, parts)
    status["bucket"] = StageStatus(
        {part: state_of(found, wanted) for part, (found, wanted) in made_from.items()}
    )
    found = {part: table for part, (table, _) in made_from.items()}
    status["shard_plan"] = StageStatus({"shard_plan": _plan(dataset, found)})
    shards = read_shards(dataset.layout.shards)
    status |= _shard_stages(dataset, shards)
    status["energon_prepare"] = StageStatus({"energon_prepare": _prepared(dataset, shards)})
    status["validate"] = StageStatus({"validate": _validated(dataset, shards)})
    return status


def state_of(found: str | None, wanted: str | None) -> State:
    """How a fingerprint on disk compares with the one that a run would write."""
    if found is None:
        return "missing"
    return "fresh" if found == wanted else "stale"


def _source_index(dataset: Dataset, index: SourceIndex | None) -> State:
    if index is None:
        return "missing"
    return state_of(index.fingerprint, listed_index(dataset).fingerprint)


def _downloads(dataset: Dataset, index: SourceIndex) -> StageStatus:
    states: dict[str, State] = {}
    for part, paths in index.paths().items():
        found = read_fingerprint(dataset.layout.download(part))
        wanted = stamps_fingerprint(list(dataset.source.stamps(paths)), revision=index.revision)
        states[part] = state_of(found, wanted)
    return StageStatus(states)


def _plan(dataset: Dataset, bucket: dict[str, str | None]) -> State:
    head = read_head(dataset.layout.shard_plan)
    view = read_head(dataset.layout.shards)
    if head is None or view is None or view["plan_digest"] != head["digest"]:
        return "missing"
    return state_of(head["fingerprint"], plan_fingerprint(dataset, bucket))


def _shard_stages(dataset: Dataset, shards: Iterable[PlannedShard]) -> dict[str, StageStatus]:
    layout = dataset.layout
    latents, text, tars = StageStatus(), StageStatus(), StageStatus()
    for shard in shards:
        key = shard.shard
        for status, path, wanted in (
            (latents, layout.latents(key), dataset.latents_fingerprint(shard)),
            (text, layout.text(key), dataset.text_fingerprint(shard)),
        ):
            header = read_header(path)
            found = header.metadata["fingerprint"] if header else None
            status.states[key] = state_of(found, wanted)
        if finished_tar(layout, shard_task(dataset, shard)) is not None:
            tars.states[key] = "fresh"
        else:
            there = read_record(layout.shard_record(key)) is not None
            tars.states[key] = "stale" if there else "missing"
    return {"encode_latents": latents, "encode_text": text, "shard": tars}


def _prepared(dataset: Dataset, shards: list[PlannedShard]) -> State:
    found = prepared_fingerprint(dataset.layout)
    if found is None or not shards:
        return "missing" if found is None else "stale"
    return state_of(found, published_fingerprint(dataset, shards))


def _validated(dataset: Dataset, shards: list[PlannedShard]) -> State:
    last = last_validation(dataset.layout)
    if last is None or not shards:
        return "missing" if last is None else "stale"
    published = published_fingerprint(dataset, shards)
    wanted = fingerprint("validate", settings={}, inputs={"energon_prepare": published})
    return state_of(last["fingerprint"], wanted)
