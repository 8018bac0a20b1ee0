"""The engine of several processes on this machine: one per device, tasks as workers get free.

Workers are never forked from this process, since neither threads nor CUDA survive that. They are
spawned; where they import large libraries, a fork server imports those once for all of them. They
die with their parent, however it dies: by the kernel's doing on Linux, elsewhere by the pipe's end.
"""

import contextlib
import errno
import logging
import multiprocessing
import os
import pickle
import signal
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerContext, SpawnContext
from multiprocessing.process import BaseProcess
from types import FrameType
from typing import Any

from diffprep_resources.compute.base import ComputeEngine, Outcome, Report, Task, WorkerSpec
from diffprep_resources.compute.inline import outcome_of
from diffprep_resources.compute.memory import Memory
from diffprep_resources.compute.paced_report import PacedReport, Told
from diffprep_resources.compute.parent_death import die_with_parent

logger = logging.getLogger(__name__)

TRIES = 2
STOP_S = 10.0
# As shells count it.
TERMINATED = 128 + signal.SIGTERM
SERVER_PRELOADS = ("diffprep_resources.compute.fork_server", "__main__")


class LocalEngine(ComputeEngine):
    """One worker process for each of `devices`, which may name a device several times."""

    def __init__(self, devices: Sequence[str], *, imports: Sequence[str] = ()) -> None:
        self.devices = tuple(devices)
        self._imports = list(imports)
        self._pool: _Pool | None = None

    def run(self, spec: WorkerSpec, tasks: Sequence[Task], *, report: Report) -> Iterator[Outcome]:
        if not tasks:
            return
        pool = self._pool = _Pool(spec, tasks, report, imports=self._imports)
        try:
            for device in self.devices[: len(tasks)]:
                pool.start(device)
            yield from pool.outcomes()
        finally:
            pool.stop()
            self._pool = None

    def memory(self) -> list[Memory]:
        return self._pool.memory() if self._pool is not None else []


@dataclass(slots=True)
class _Running:
    """One worker process, and the task it has now."""

    process: BaseProcess
    connection: Connection
    device: str
    task: Task | None = None
    memory: Memory | None = None


class _Pool:
    def __init__(
        self, spec: WorkerSpec, tasks: Sequence[Task], report: Report, *, imports: list[str]
    ) -> None:
        self._context = _context(imports)
        self._spec = spec
        self._waiting = deque(tasks)
        self._report = report
        self._deaths: dict[str, int] = {}
        self._notes: dict[str, str] = {}
        self._workers: list[_Running] = []
        self._leaving: list[_Running] = []

    def start(self, device: str) -> None:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(
            target=_work, args=(self._spec, device, theirs), daemon=True
        )
        process.start()
        theirs.close()
        self._workers.append(_Running(process, ours, device))

    def outcomes(self) -> Iterator[Outcome]:
        """Outcomes of all tasks as they come. Raises what stops the whole stage."""
        while self._workers:
            ready = wait([worker.connection for worker in self._workers])
            for worker in list(self._workers):
                if worker.connection in ready:
                    yield from self._heard(worker)

    def memory(self) -> list[Memory]:
        """As the workers last told it."""
        return [worker.memory for worker in self._workers if worker.memory is not None]

    def stop(self) -> None:
        """No process is left: those at work are ended, those without a task may finish."""
        for worker in self._workers:
            worker.process.terminate()
        for worker in (*self._workers, *self._leaving):
            worker.process.join(STOP_S)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
            worker.connection.close()
        self._workers.clear()
        self._leaving.clear()

    def _heard(self, worker: _Running) -> Iterator[Outcome]:
        try:
            kind, content = worker.connection.recv()
        except (EOFError, OSError):
            # OSError: it died with half a message sent.
            yield from self._died(worker)
            return
        if kind == "report":
            done, rejected, worker.memory = _latest(content, worker.memory)
            self._report(done, rejected)
        elif kind == "stop the stage":
            raise content
        else:
            if kind == "outcome":
                yield replace(content, note=self._notes.get(content.key))
            self._hand_out(worker)

    def _hand_out(self, worker: _Running) -> None:
        """The next task, or the end."""
        worker.task = self._waiting.popleft() if self._waiting else None
        # A worker that died meanwhile is noticed by the end of its pipe.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            worker.connection.send(worker.task)
        if worker.task is None:
            self._workers.remove(worker)
            self._leaving.append(worker)

    def _died(self, worker: _Running) -> Iterator[Outcome]:
        """A dead worker is replaced; its task is tried once more, then given up."""
        worker.process.join()
        worker.connection.close()
        self._workers.remove(worker)
        task, how = worker.task, _how(worker.process.exitcode)
        if task is None:
            raise ChildProcessError(f"a worker on {worker.device} died while it started: {how}")
        self._deaths[task.key] = self._deaths.get(task.key, 0) + 1
        logger.warning("a worker on %s died on %s: %s", worker.device, task.key, how)
        if self._deaths[task.key] < TRIES:
            self._notes[task.key] = f"a worker died on it, {how}; it was tried again"
            self._waiting.appendleft(task)
        else:
            yield Outcome(task.key, error=f"the worker died {TRIES} times on it, {how}")
        if self._waiting:
            self.start(worker.device)


def _context(imports: list[str]) -> SpawnContext | ForkServerContext:
    """How processes start. The server imports what its first user asked for; what a later one
    misses there, its workers import themselves. Its environment is that of its first user too,
    and libraries read theirs on import: under another one, workers start afresh."""
    if not imports or dict(os.environ) != _server_environment():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*SERVER_PRELOADS, *imports])
    return context


@cache
def _server_environment() -> dict[str, str]:
    """This process's environment as it was when the fork server was first wanted."""
    return dict(os.environ)


def _latest(told: Told, before: Memory | None) -> tuple[int, int, Memory | None]:
    done, rejected, memory = told
    return done, rejected, memory or before


def _how(code: int | None) -> str:
    if code is not None and code < 0:
        killed = f"killed by {signal.Signals(-code).name}"
        if -code == signal.SIGKILL:
            killed += " (for memory, as a rule: fewer --workers or a smaller --batch-size helps)"
        return killed
    if code == TERMINATED:
        return "ended by SIGTERM"
    return f"exit code {code}"


def _work(spec: WorkerSpec, device: str, connection: Connection) -> None:
    """The worker's process: asks for tasks until there is none."""
    # Its parent is the one that started it or the fork server, which ends with that.
    die_with_parent()
    started_by = multiprocessing.parent_process()
    if started_by is None or not started_by.is_alive():
        os._exit(0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _leave)
    worker = None

    def send(kind: str, content: Any) -> None:
        # The parent is gone, and with it everybody who would want this.
        try:
            connection.send((kind, content))
        except (BrokenPipeError, ConnectionResetError):
            os._exit(0)

    try:
        worker = spec.build()
        worker.setup(device)
        send("ready", None)
        report = PacedReport(lambda told: send("report", told), device)
        while (task := _next_task(connection)) is not None:
            outcome = outcome_of(worker, task, report=report)
            report.flush()
            send("outcome", outcome)
    except Exception as error:
        send("stop the stage", _sendable(error))
    finally:
        if worker is not None:
            worker.close()


def _leave(number: int, _: FrameType | None) -> None:
    """Ends the process as an error would: what is half written is removed on the way."""
    signal.signal(number, signal.SIG_IGN)
    raise SystemExit(TERMINATED)


def _next_task(connection: Connection) -> Task | None:
    try:
        return connection.recv()
    except (EOFError, ConnectionResetError):
        os._exit(0)


def _sendable(error: Exception) -> Exception:
    """The error as it arrives where it survives pickling, else its words."""
    if isinstance(error, OSError) and error.errno in errno.errorcode:
        return OSError(error.errno, error.strerror, error.filename)
    words = RuntimeError(f"{type(error).__name__}: {error}")
    try:
        copy = pickle.loads(pickle.dumps(error))
    except Exception:
        return words
    return copy if str(copy) == str(error) else words
