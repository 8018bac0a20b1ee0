"""One run of a partitioned stage: what is fresh is passed over, the rest goes to an engine."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from typing import Any

from diffprep_assets.partition_worker import PartitionResult, PartitionTask
from diffprep_assets.stop_signals import refuse_to_go_on
from diffprep_resources.compute.base import ComputeEngine, Outcome, Report, Task, WorkerSpec
from diffprep_resources.compute.engines import Load
from diffprep_resources.errors import DiffprepError
from diffprep_resources.progress.base import Progress, SampleCounts, StageProgress, Unit

Log = Callable[[str], None]

# Below this, a rate says little.
FEW_SAMPLES = 200


@dataclass(frozen=True, slots=True)
class Done:
    """A partition whose file is whole; `reused` when it was already. `metadata` is for people."""

    key: str
    fingerprint: str
    metadata: Mapping[str, Any]
    reused: bool = False


@dataclass(frozen=True, slots=True)
class Failed:
    """A partition that could not be made, and why."""

    key: str
    reason: str


@dataclass(frozen=True, slots=True)
class PartitionRun:
    """What a partitioned stage is to do. `finished` looks on disk, before a model is loaded;
    `extra` tasks are no partitions of their own, and fail the run when they fail.
    `samples_per_process` are worth the start of a process, which loads `worker_bytes` and the
    libraries `imports`. With more than `max_reject_rate` of its samples rejected, the run stops."""

    stage: str
    unit: Unit
    tasks: Sequence[PartitionTask]
    finished: Callable[[PartitionTask], PartitionResult | None]
    spec: WorkerSpec
    recipe_hash: str
    samples_per_process: int
    extra: Sequence[Task] = ()
    worker_bytes: Callable[[], int] = int
    imports: Sequence[str] = ()
    max_reject_rate: float = 1.0

    def results(
        self,
        engine: Callable[[Load], AbstractContextManager[ComputeEngine]],
        *,
        progress: Progress,
        log: Log,
    ) -> Iterator[Done | Failed]:
        """Every partition, fresh ones first, the others as they end."""
        stale = []
        fresh = []
        for task in self.tasks:
            result = self.finished(task)
            if result is None:
                stale.append(task)
            else:
                fresh.append((task, result))
        total = sum(task.num_samples for task in stale)
        with progress.stage(self.stage, log=log, unit=self.unit, total_samples=total) as shown:
            for task, result in fresh:
                shown.partition_done(result.counts, fresh=True)
                yield Done(task.key, task.fingerprint, self._metadata(result, None), reused=True)
            if stale:
                shown.tell(
                    f"{self.stage}: {len(stale):,} of {len(self.tasks):,} {self.unit} to make, "
                    f"{total:,} samples"
                )
            if stale or self.extra:
                tasks = [*self.extra, *stale]
                load = Load(
                    *(len(tasks), total, self.samples_per_process),
                    worker_bytes=self.worker_bytes,
                    imports=self.imports,
                )
                with engine(load) as running, ExitStack() as ended:
                    shown.memory = running.memory
                    made, held = SampleCounts(), _Held()
                    outcomes = running.run(self.spec, tasks, report=_advance(shown))
                    # An error's traceback would keep it alive, and with it its workers.
                    ended.callback(getattr(outcomes, "close", lambda: None))
                    for outcome in outcomes:
                        refuse_to_go_on()
                        yield from self._ended(outcome, shown)
                        if isinstance(outcome.result, PartitionResult):
                            made = made + outcome.result.counts
                            held.add(outcome.result.facts)
                            self._stop_when_too_many_rejected(made)
                    if held.batch_sizes:
                        shown.tell(f"{self.stage}: {held.words}")

    def _ended(self, outcome: Outcome, shown: StageProgress) -> Iterator[Done | Failed]:
        if outcome.note is not None:
            shown.tell(f"{self.stage}: {outcome.key}: {outcome.note}")
        if outcome.error is not None:
            shown.partition_failed(outcome.key, outcome.error)
            yield Failed(outcome.key, outcome.error)
            return
        if any(outcome.key == task.key for task in self.extra):
            return
        result: PartitionResult = outcome.result
        shown.partition_done(result.counts, fresh=False)
        yield Done(outcome.key, result.fingerprint, self._metadata(result, outcome.seconds))

    def _stop_when_too_many_rejected(self, made: SampleCounts) -> None:
        rejected = sum(made.rejects.values())
        if made.samples_in < FEW_SAMPLES or rejected <= self.max_reject_rate * made.samples_in:
            return
        reasons = ", ".join(f"{code} {count:,}" for code, count in made.rejects.most_common(3))
        raise DiffprepError(
            f"{self.stage}: {rejected:,} of {made.samples_in:,} samples rejected "
            f"({rejected / made.samples_in:.1%}), more than output.max_reject_rate "
            f"{self.max_reject_rate:g}: {reasons}. What is done is kept; mend the source, or raise "
            f"output.max_reject_rate, and run again (with --retry-rejects where the cause was "
            f"passing: a reject is not tried again otherwise)"
        )

    def _metadata(self, result: PartitionResult, seconds: float | None) -> dict[str, Any]:
        """The same keys in every stage, as numbers that plot over partitions."""
        counts = result.counts
        metadata: dict[str, Any] = {
            "samples_in": counts.samples_in,
            "samples_out": counts.samples_out,
            "encoded": counts.encoded,
            "reused_samples": counts.reused,
            "rejected": sum(counts.rejects.values()),
            "rejects": dict(sorted(counts.rejects.items())),
            "bytes": result.size_bytes,
            "recipe_hash": self.recipe_hash,
            **result.facts,
        }
        if seconds is not None:
            metadata["seconds"] = round(seconds, 3)
            metadata["samples_per_second"] = round(counts.samples_in / max(seconds, 1e-9), 2)
        return metadata


@dataclass(slots=True)
class _Held:
    """What the devices could hold: batch sizes as they were at last, and the memory's peak."""

    batch_sizes: set[int] = field(default_factory=set)
    peak_bytes: int = 0

    def add(self, facts: Mapping[str, int]) -> None:
        if "batch_size" in facts:
            self.batch_sizes.add(facts["batch_size"])
            self.peak_bytes = max(self.peak_bytes, facts["memory_peak_bytes"])

    @property
    def words(self) -> str:
        least, most = min(self.batch_sizes), max(self.batch_sizes)
        size = f"{least}" if least == most else f"{least} to {most}, halved where memory ran out"
        return f"batch size {size}; a worker's memory peak {self.peak_bytes / 1e9:.1f} GB"


def _advance(shown: StageProgress) -> Report:
    """Shows samples as they are done, and stops between batches when a signal asked for it."""

    def advance(num_samples: int, rejected: int = 0, /) -> None:
        shown.advance(num_samples, rejected)
        refuse_to_go_on()

    return advance
