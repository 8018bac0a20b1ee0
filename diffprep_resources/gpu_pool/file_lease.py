"""Devices leased by file lock: a process that dies, however, gives its devices back at once."""

import contextlib
import logging
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from diffprep_resources.errors import DatasetLockedError, SettingError
from diffprep_resources.gpu_pool.base import DevicePool
from diffprep_resources.storage.locks import hold, holder_of

logger = logging.getLogger(__name__)

POLL_S = 0.5


class FileLeasePool(DevicePool):
    """`devices` as the project names them; `auto` takes every CUDA device, or else the CPU."""

    def __init__(self, *, devices: Sequence[str], lock_folder: Path, wait_s: float) -> None:
        self._wanted = tuple(devices)
        self._found: tuple[str, ...] | None = None
        self._lock_folder = lock_folder
        self._wait_s = wait_s

    @property
    def devices(self) -> Sequence[str]:
        if self._found is None:
            self._found = tuple(present_devices(self._wanted))
        return self._found

    @contextlib.contextmanager
    def lease(self, device: str | None = None) -> Iterator[Sequence[str]]:
        wanted = tuple(present_devices([device])) if device else self.devices
        deadline = time.monotonic() + self._wait_s
        told = False
        while True:
            with contextlib.ExitStack() as leases:
                leased = [name for name in wanted if self._take(leases, name)]
                if leased:
                    yield leased
                    return
            held = ", ".join(f"{name} is held by {holder_of(self._lock(name))}" for name in wanted)
            if time.monotonic() >= deadline:
                raise DatasetLockedError(
                    f"no device came free in {self._wait_s:.0f} s: {held}; wait for that run, or "
                    "raise lock_wait_minutes in dagster_project.toml"
                )
            if not told:
                logger.warning("waiting for a device: %s", held)
                told = True
            time.sleep(POLL_S)

    def _take(self, leases: contextlib.ExitStack, device: str) -> bool:
        """Whether the lease was free. The CPU is shared by all: it needs none."""
        if device == "cpu":
            return True
        try:
            leases.enter_context(hold(self._lock(device), holder=f"a stage on {device}"))
        except DatasetLockedError:
            return False
        return True

    def _lock(self, device: str) -> Path:
        return self._lock_folder / f"{device.replace(':', '-')}.lock"


def num_devices(devices: Sequence[str]) -> int:
    """How many devices a project has, told without loading torch; at least one."""
    if devices and not {"auto", "cuda"} & set(devices):
        return len(devices)
    found = [path for path in Path("/dev").glob("nvidia*") if path.name[6:].isdigit()]
    return max(1, len(found))


def present_devices(wanted: Sequence[str]) -> Iterator[str]:
    """The devices themselves. Raises SettingError for one that this machine lacks."""
    for name in wanted:
        if name == "cpu":
            yield name
            continue
        count = _cuda_count()
        if name in {"auto", "cuda"}:
            yield from [f"cuda:{number}" for number in range(count)] or (
                ["cpu"] if name == "auto" else _refuse(name, count)
            )
        elif name.startswith("cuda:") and int(name[5:]) >= count:
            _refuse(name, count)
        else:
            yield name


def _refuse(name: str, count: int) -> list[str]:
    raise SettingError(
        f"device {name}: this machine has {count} CUDA devices; cpu always works. --device goes "
        "before the recipe's model.device, and that before devices in dagster_project.toml"
    )


def _cuda_count() -> int:
    import torch

    return torch.cuda.device_count() if torch.cuda.is_available() else 0
