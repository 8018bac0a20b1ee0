"""Which engine a stage gets: as many workers as there is work for, on what the pool lends."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pytest

from diffprep_resources.compute.base import ComputeEngine
from diffprep_resources.compute.engines import Engines, Load
from diffprep_resources.compute.inline import InlineEngine
from diffprep_resources.compute.local import LocalEngine
from diffprep_resources.gpu_pool.base import DevicePool

MUCH = Load(num_tasks=100, num_samples=100_000, samples_per_process=256)
LITTLE = Load(num_tasks=100, num_samples=256, samples_per_process=256)


@dataclass
class Pool(DevicePool):
    """Lends all its devices, or the one asked for; `lent` tells what is out."""

    names: tuple[str, ...]
    lent: list[str] = field(default_factory=list)

    @property
    def devices(self) -> Sequence[str]:
        return self.names

    @contextlib.contextmanager
    def lease(self, device: str | None = None) -> Iterator[Sequence[str]]:
        self.lent = [device] if device else list(self.names)
        yield tuple(self.lent)
        self.lent = []


def devices_of(engine: ComputeEngine) -> list[str]:
    """The device of each worker; one in this process stands alone."""
    if isinstance(engine, InlineEngine):
        return [engine.device]
    assert isinstance(engine, LocalEngine)
    assert len(engine.devices) > 1
    return list(engine.devices)


@pytest.mark.parametrize(
    ("tasks", "samples", "workers"),
    [(100, 100_000, 8), (3, 100_000, 3), (100, 257, 2), (100, 256, 1), (1, 0, 1), (0, 0, 1)],
)
def test_a_worker_is_started_where_it_is_worth_it(tasks: int, samples: int, workers: int):
    assert Load(tasks, samples, samples_per_process=256).workers(8) == workers


def test_work_without_a_device_goes_to_processes_of_the_cpu():
    engines = Engines(Pool(("cuda:0",)), cpu_workers=3)
    with engines.cpu(MUCH) as engine:
        assert devices_of(engine) == ["cpu"] * 3
    with engines.cpu(LITTLE) as engine:
        assert devices_of(engine) == ["cpu"]


def test_each_lent_device_has_one_worker_and_is_given_back():
    pool = Pool(("cuda:0", "cuda:1"))
    engines = Engines(pool, cpu_workers=8)
    with engines.device(MUCH, workers=5) as engine:
        assert devices_of(engine) == ["cuda:0", "cuda:1"]
        assert pool.lent == ["cuda:0", "cuda:1"]
    assert pool.lent == []
    with engines.device(LITTLE) as engine:
        assert devices_of(engine) == ["cuda:0"]
    with engines.device(MUCH, device="cuda:1") as engine:
        assert devices_of(engine) == ["cuda:1"]


def test_without_an_accelerator_as_many_models_are_loaded_as_memory_holds():
    engines = Engines(Pool(("cpu",)), cpu_workers=4)
    with engines.device(MUCH) as engine:
        assert devices_of(engine) == ["cpu"] * 4
    huge = Load(100, 100_000, 256, worker_bytes=lambda: 1 << 50)
    with engines.device(huge) as engine:
        assert devices_of(engine) == ["cpu"]
    # Who says how many has reckoned for himself.
    with engines.device(huge, workers=2) as engine:
        assert devices_of(engine) == ["cpu"] * 2
