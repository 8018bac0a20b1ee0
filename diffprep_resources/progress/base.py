"""How far a stage is, and what it did: shown while it runs, kept for the end."""

import contextlib
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from diffprep_resources.compute.memory import Memory

Unit = Literal["parts", "shards"]
Log = Callable[[str], None]

# However often samples are told, nothing is shown more often.
GLANCE_S = 0.1
MEMORY_S = 2.0


@dataclass(frozen=True, slots=True)
class SampleCounts:
    """Samples through one partition: `samples_in == samples_out + sum(rejects)`.

    `encoded` of the outgoing ones were worked on now, `reused` taken over.
    """

    samples_in: int = 0
    samples_out: int = 0
    encoded: int = 0
    reused: int = 0
    rejects: Counter[str] = field(default_factory=Counter)

    def __add__(self, other: "SampleCounts") -> "SampleCounts":
        return SampleCounts(
            self.samples_in + other.samples_in,
            self.samples_out + other.samples_out,
            self.encoded + other.encoded,
            self.reused + other.reused,
            self.rejects + other.rejects,
        )


@dataclass(slots=True)
class StageSummary:
    """What one run of a stage did. `failed` gives the reason by partition."""

    stage: str
    unit: Unit | None
    done: int = 0
    fresh: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    samples: SampleCounts = field(default_factory=SampleCounts)
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Glance:
    """A stage at one moment. `total` is None where only reading can tell."""

    done: int
    total: int | None
    rejected: int
    memory: Sequence[Memory] = ()


Show = Callable[[Glance], None]


class StageProgress:
    """One stage under way. Samples are told as they are done, partitions when they end.

    `memory` may be set to what says how much the workers hold; it is asked now and then.
    """

    def __init__(
        self, summary: StageSummary, show: Show, *, tell: Log, total_samples: int | None
    ) -> None:
        self.summary = summary
        self.tell = tell
        self.total_samples = total_samples
        self.memory: Callable[[], Sequence[Memory]] | None = None
        self._show = show
        self._done = self._rejected = 0
        self._next = self._next_memory = 0.0
        self._held: Sequence[Memory] = ()

    def advance(self, num_samples: int, rejected: int = 0, /) -> None:
        """`num_samples` more were worked on, `rejected` of them left out."""
        self._done += num_samples
        self._rejected += rejected
        now = time.monotonic()
        if now >= self._next:
            self._next = now + GLANCE_S
            self._glance(now)

    def partition_done(self, counts: SampleCounts, *, fresh: bool) -> None:
        """A partition ended; what was made now was told by `advance` already."""
        self.summary.samples = self.summary.samples + counts
        if fresh:
            self.summary.fresh += 1
            self._rejected += sum(counts.rejects.values())
        else:
            self.summary.done += 1

    def partition_failed(self, key: str, reason: str) -> None:
        self.summary.failed[key] = reason

    def _glance(self, now: float) -> None:
        if self.memory is not None and now >= self._next_memory:
            self._next_memory = now + MEMORY_S
            self._held = self.memory() or self._held
        self._show(Glance(self._done, self.total_samples, self._rejected, self._held))


class Progress(ABC):
    """Shows stages and keeps their summaries, in the order they ran."""

    def __init__(self) -> None:
        self.summaries: dict[str, StageSummary] = {}

    @contextlib.contextmanager
    def stage(
        self,
        name: str,
        *,
        log: Log,
        unit: Unit | None = None,
        total_samples: int | None = None,
    ) -> Iterator[StageProgress]:
        """Progress of the stage for the block. `total_samples` is what there is to work on; lines
        for people go to the stage's `tell`."""
        summary = self.summaries[name] = StageSummary(name, unit)
        tell = self.teller(log)
        begin = time.monotonic()
        with self._shown(summary, tell) as show:
            try:
                yield StageProgress(summary, show, tell=tell, total_samples=total_samples)
            finally:
                summary.seconds = time.monotonic() - begin

    def teller(self, log: Log) -> Log:
        """Where lines of a stage go whose run has `log`."""
        return log

    @abstractmethod
    def _shown(self, summary: StageSummary, tell: Log) -> contextlib.AbstractContextManager[Show]:
        """A function that shows a stage at a moment; the summary is whole when it ends."""
