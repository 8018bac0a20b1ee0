"""The engine that works in this process, on one device."""

import errno
import logging
import time
from collections.abc import Iterator, Sequence

from diffprep_resources.compute.base import (
    ComputeEngine,
    Outcome,
    Report,
    Task,
    Worker,
    WorkerSpec,
)
from diffprep_resources.compute.memory import Memory, memory_held

logger = logging.getLogger(__name__)

# A full disk, a read-only or vanished folder: every further task would fail the same way.
WORLD_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.ESTALE, errno.ENOTCONN})


class InlineEngine(ComputeEngine):
    """One worker in the calling process. Ends with the process, like everything in it."""

    def __init__(self, *, device: str) -> None:
        self.device = device

    def run(self, spec: WorkerSpec, tasks: Sequence[Task], *, report: Report) -> Iterator[Outcome]:
        if not tasks:
            return
        worker = spec.build()
        worker.setup(self.device)
        try:
            for task in tasks:
                yield outcome_of(worker, task, report=report)
        finally:
            worker.close()

    def memory(self) -> list[Memory]:
        return [memory_held(self.device)]


def outcome_of(worker: Worker, task: Task, *, report: Report) -> Outcome:
    """The outcome of one task; raises only what stops the stage."""
    begin = time.monotonic()
    try:
        result = worker.process(task, report)
    except OSError as error:
        if error.errno in WORLD_ERRNOS:
            raise
        return _failed(task, error, begin)
    except Exception as error:
        return _failed(task, error, begin)
    return Outcome(key=task.key, result=result, seconds=time.monotonic() - begin)


def _failed(task: Task, error: Exception, begin: float) -> Outcome:
    logger.exception("task %s failed", task.key)
    words = str(error) or type(error).__name__
    return Outcome(key=task.key, error=words, seconds=time.monotonic() - begin)
