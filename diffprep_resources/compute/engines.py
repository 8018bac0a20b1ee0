"""The engines of one run: on CPU processes, or on leased devices."""

import contextlib
from collections.abc import Iterator

from diffprep_resources.compute.base import ComputeEngine
from diffprep_resources.compute.inline import InlineEngine
from diffprep_resources.gpu_pool.base import DevicePool


class Engines:
    """Gives each stage the engine that suits it."""

    def __init__(self, pool: DevicePool) -> None:
        self._pool = pool

    @contextlib.contextmanager
    def cpu(self) -> Iterator[ComputeEngine]:
        """An engine for work without a device."""
        yield InlineEngine(device="cpu")

    @contextlib.contextmanager
    def device(self, device: str | None = None) -> Iterator[ComputeEngine]:
        """An engine on leased devices: on `device` alone, or on whatever is free."""
        with self._pool.lease(device) as devices:
            yield InlineEngine(device=devices[0])
