"""Workers over tasks: what every compute engine keeps to."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from diffprep_resources.compute.memory import Memory


class Report(Protocol):
    """Told after samples were worked on, `rejected` of them left out. Called once a batch or so."""

    def __call__(self, num_samples: int, rejected: int = 0, /) -> None: ...


def unheard(num_samples: int, rejected: int = 0, /) -> None:
    """A Report that nobody listens to."""


class Worker(ABC):
    """Does tasks one after another, on one device. Lives in the process that runs it."""

    @abstractmethod
    def setup(self, device: str) -> None:
        """Load what every task needs (models) on `device`: `cpu`, `cuda:0`, ..."""

    @abstractmethod
    def process(self, task: Any, report: Report) -> Any:
        """The picklable result of one task; `report(n, rejected)` after each n samples done.

        Raises what the task cannot get over; it must leave no half-written file.
        """

    @abstractmethod
    def close(self) -> None:
        """Release what `setup` took."""


class WorkerSpec(Protocol):
    """Frozen and picklable: crosses to the worker's process instead of the worker."""

    def build(self) -> Worker: ...


class Task(Protocol):
    """One unit of work: a part or a shard. Picklable."""

    @property
    def key(self) -> str: ...

    @property
    def num_samples(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one task ended: a `result`, or the `error` in words. `note` tells what else happened."""

    key: str
    result: Any = None
    error: str | None = None
    seconds: float = 0.0
    note: str | None = None


class ComputeEngine(ABC):
    """Runs workers over tasks. The same tasks give the same bytes on every engine."""

    @abstractmethod
    def run(self, spec: WorkerSpec, tasks: Sequence[Task], *, report: Report) -> Iterator[Outcome]:
        """Outcomes as they come, one per task, in any order.

        A task that fails gives an outcome with an error and the others go on. What stops the
        whole stage (no model, no space, a read-only folder) is raised.
        """

    def memory(self) -> list[Memory]:
        """What the workers of the run under way hold; empty where the engine cannot tell."""
        return []
