"""What the workers of all partitioned stages share: tasks, results, and the partition's lock."""

import logging
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from diffprep_resources.compute.base import Report, Worker
from diffprep_resources.progress.base import SampleCounts
from diffprep_resources.storage.locks import hold

logger = logging.getLogger(__name__)

LOCK_WAIT_S = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class PartitionTask:
    """One part or shard to make: the fingerprint that its file will carry. With `retry_rejects`,
    a file with transient rejects is not finished."""

    key: str
    num_samples: int
    fingerprint: str
    retry_rejects: bool = field(default=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class PartitionResult:
    """What one partition came to. `facts` are further numbers for people, by name."""

    fingerprint: str
    counts: SampleCounts
    size_bytes: int
    facts: dict[str, int] = field(default_factory=dict)


class PartitionWorker(Worker):
    """Makes partitions under their lock, so that two runs never write the same file."""

    @abstractmethod
    def lock(self, task: PartitionTask) -> Path:
        """The partition's lock file."""

    @abstractmethod
    def finished(self, task: PartitionTask) -> PartitionResult | None:
        """The result on disk when it carries the task's fingerprint: another run made it."""

    @abstractmethod
    def make(self, task: PartitionTask, report: Report) -> PartitionResult:
        """Write the partition's file, whole, and say what it came to."""

    def setup(self, device: str) -> None:
        """Nothing to load; encoders override this."""

    def process(self, task: PartitionTask, report: Report) -> PartitionResult:
        holder = f"a run making {task.key}"
        lock = hold(self.lock(task), holder=holder, wait_s=LOCK_WAIT_S, waiting=logger.warning)
        with lock:
            done = self.finished(task)
            if done is not None:
                report(task.num_samples, sum(done.counts.rejects.values()))
                return done
            return self.make(task, report)

    def close(self) -> None:
        """Nothing to release; encoders override this."""


def reused_counts(num_samples: int, codes: Iterable[str]) -> SampleCounts:
    """Counts of a partition that is whole already, `codes` being its rejects'."""
    rejects = Counter(codes)
    kept = num_samples - sum(rejects.values())
    return SampleCounts(num_samples, kept, encoded=0, reused=kept, rejects=rejects)
