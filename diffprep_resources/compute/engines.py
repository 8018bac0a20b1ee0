"""The engines of one run: on CPU processes, or on leased devices."""

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from diffprep_resources.compute.base import ComputeEngine
from diffprep_resources.compute.inline import InlineEngine
from diffprep_resources.compute.local import LocalEngine
from diffprep_resources.gpu_pool.base import DevicePool

MEMINFO = Path("/proc/meminfo")


@dataclass(frozen=True, slots=True)
class Load:
    """What a stage has to do: how many samples in how many tasks, and how many samples are worth
    the start of a process. `worker_bytes` is what each worker loads, `imports` the large libraries
    that each of them imports, by module name."""

    num_tasks: int
    num_samples: int
    samples_per_process: int
    worker_bytes: Callable[[], int] = int
    imports: Sequence[str] = ()

    def workers(self, most: int) -> int:
        """How many workers are worth their start."""
        return max(1, min(most, self.num_tasks, -(-self.num_samples // self.samples_per_process)))


class Engines:
    """Gives each stage the engine that suits it."""

    def __init__(self, pool: DevicePool, *, cpu_workers: int | None = None) -> None:
        self._pool = pool
        self._cpu_workers = cpu_workers or num_cores()

    @contextlib.contextmanager
    def cpu(self, load: Load) -> Iterator[ComputeEngine]:
        """An engine for work without a device."""
        yield _engine(["cpu"] * load.workers(self._cpu_workers), load)

    @contextlib.contextmanager
    def device(
        self, load: Load, *, device: str | None = None, workers: int | None = None
    ) -> Iterator[ComputeEngine]:
        """An engine on leased devices: on `device` alone, or on whatever is free.

        Without an accelerator, on several CPU processes, as many as memory holds the models for.
        """
        with self._pool.lease(device) as devices:
            if list(devices) == ["cpu"]:
                most = workers or min(self._cpu_workers, _that_fit(load.worker_bytes()))
                yield _engine(["cpu"] * load.workers(most), load)
            else:
                yield _engine(devices[: load.workers(len(devices))], load)


def num_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _engine(devices: Sequence[str], load: Load) -> ComputeEngine:
    if len(devices) == 1:
        return InlineEngine(device=devices[0])
    return LocalEngine(devices, imports=load.imports)


def _that_fit(worker_bytes: int) -> int:
    """How many copies of a model half of the free memory holds; at least one."""
    if not MEMINFO.exists():
        return 1
    lines = dict(line.split(":", 1) for line in MEMINFO.read_text().splitlines())
    free = int(lines["MemAvailable"].split()[0]) * 1024
    return max(1, free // 2 // max(1, worker_bytes))
