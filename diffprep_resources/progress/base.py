"""How far a stage is, and what it did: shown while it runs, kept for the end."""

import contextlib
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

Unit = Literal["parts", "shards"]


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


class StageProgress:
    """One stage under way. Samples are told as they are done, partitions when they end."""

    def __init__(self, summary: StageSummary, show: Callable[[int, int], None]) -> None:
        self.summary = summary
        self._show = show
        self._samples_done = 0

    def advance(self, num_samples: int) -> None:
        """`num_samples` more were worked on."""
        self._samples_done += num_samples
        self._show(self._samples_done, sum(self.summary.samples.rejects.values()))

    def partition_done(self, counts: SampleCounts, *, fresh: bool) -> None:
        self.summary.samples = self.summary.samples + counts
        if fresh:
            self.summary.fresh += 1
        else:
            self.summary.done += 1

    def partition_failed(self, key: str, reason: str) -> None:
        self.summary.failed[key] = reason


class Progress(ABC):
    """Shows stages and keeps their summaries, in the order they ran."""

    def __init__(self) -> None:
        self.summaries: dict[str, StageSummary] = {}

    @contextlib.contextmanager
    def stage(
        self,
        name: str,
        *,
        log: Callable[[str], None],
        unit: Unit | None = None,
        total_samples: int | None = None,
    ) -> Iterator[StageProgress]:
        """Progress of the stage for the block. `total_samples` is what there is to work on."""
        summary = self.summaries[name] = StageSummary(name, unit)
        begin = time.monotonic()
        with self._shown(name, total_samples, log) as show:
            try:
                yield StageProgress(summary, show)
            finally:
                summary.seconds = time.monotonic() - begin

    @abstractmethod
    def _shown(
        self, name: str, total_samples: int | None, log: Callable[[str], None]
    ) -> contextlib.AbstractContextManager[Callable[[int, int], None]]:
        """A function of (samples done, rejects so far) that shows them."""
