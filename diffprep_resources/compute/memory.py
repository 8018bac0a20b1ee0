"""How much memory a worker holds: of its device, or of the machine where it has none."""

import os
import resource
import sys
from dataclasses import dataclass
from pathlib import Path

STATM = Path("/proc/self/statm")


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes in use on `device`. With a `total` they are the whole device's, whoever uses it;
    without one (CPU) they are one process's resident memory."""

    device: str
    used_bytes: int
    total_bytes: int | None = None


def memory_held(device: str) -> Memory:
    """The memory of `device` as this process sees it now; loads no library to find out."""
    kind = device.partition(":")[0]
    torch = sys.modules.get("torch")
    module = getattr(torch, kind, None) if kind in ("cuda", "xpu") else None
    if module is not None and module.is_available():
        free, total = module.mem_get_info(device)
        return Memory(device, total - free, total)
    return Memory(device, _resident_bytes())


def memory_peak(device: str) -> int:
    """The most bytes that this process held at once: of `device`, or resident where it has none."""
    kind = device.partition(":")[0]
    torch = sys.modules.get("torch")
    module = getattr(torch, kind, None) if kind in ("cuda", "xpu") else None
    if module is not None and module.is_available():
        return module.max_memory_reserved(device)
    return _peak_bytes()


def _peak_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _resident_bytes() -> int:
    if STATM.exists():
        return int(STATM.read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return _peak_bytes()
