"""What the workers of all finished shards share: the task, the lock, and what stands on disk."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from diffprep_assets.dataset import Dataset
from diffprep_assets.layout import Layout
from diffprep_assets.partition_worker import PartitionResult, PartitionTask, PartitionWorker
from diffprep_assets.recipe.formats import SHARD_STAGE, Format
from diffprep_assets.shard.commit import finish_commit
from diffprep_assets.shard.finished import finished_shard
from diffprep_assets.shard_plan.plan import PlannedShard
from diffprep_resources.compute.base import Report


@dataclass(frozen=True, slots=True)
class ShardTask(PartitionTask):
    """A shard to write in one format. `encoded` are the fingerprints that its rows must carry, by
    encode stage of the recipe: whom those left out is left out here."""

    planned: PlannedShard
    encoded: Mapping[str, str]


class FinishedSpec(Protocol):
    """What a process needs to write finished shards; `layout` is that of the format."""

    @property
    def layout(self) -> Layout: ...


SpecT = TypeVar("SpecT", bound=FinishedSpec)


class FinishedWorker(PartitionWorker, Generic[SpecT]):
    """Writes the finished shards of the format of `spec.layout`; needs no device."""

    def __init__(self, spec: SpecT) -> None:
        self.spec = spec

    @abstractmethod
    def write(self, task: ShardTask, report: Report) -> PartitionResult:
        """Write the shard, whole, and say what it came to."""

    def lock(self, task: PartitionTask) -> Path:
        layout = self.spec.layout
        return layout.partition_lock(SHARD_STAGE[layout.format], task.key)

    def finished(self, task: PartitionTask) -> PartitionResult | None:
        finish_commit(self.spec.layout, task.key)
        return finished_shard(self.spec.layout, task)

    def make(self, task: PartitionTask, report: Report) -> PartitionResult:
        if not isinstance(task, ShardTask):
            raise TypeError(f"a finished shard needs a ShardTask, got {type(task).__name__}")
        return self.write(task, report)


def shard_task(
    dataset: Dataset, shard: PlannedShard, *, format: Format, retry_rejects: bool = False
) -> ShardTask:
    """What it takes to write this shard of the plan in the format."""
    return ShardTask(
        key=shard.shard,
        num_samples=shard.num_samples,
        fingerprint=dataset.format_fingerprint(shard, format),
        planned=shard,
        encoded=dataset.encode_fingerprints(shard),
        retry_rejects=retry_rejects,
    )
