"""A stage at one moment in words: how many, how fast, how long still, rejects, memory."""

from collections import deque
from collections.abc import Sequence

from diffprep_resources.compute.memory import Memory
from diffprep_resources.progress.base import Glance

WINDOW_S = 60.0
_GB = 1_000_000_000


class Rate:
    """Samples a second over the last minute: what a model's loading took counts no longer."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def add(self, now: float, done: int) -> None:
        """At `now` (monotonic seconds) `done` samples were done in all."""
        self._seen.append((now, done))
        while now - self._seen[0][0] > WINDOW_S and len(self._seen) > 2:
            self._seen.popleft()

    def per_second(self) -> float | None:
        """None until two moments are known."""
        if len(self._seen) < 2:
            return None
        (begin, before), (end, after) = self._seen[0], self._seen[-1]
        return (after - before) / (end - begin) if end > begin else None


def pace_text(glance: Glance, rate: float | None) -> str:
    """`120 of 1,000 samples, 12.0 a second, 1:13 left, 3 rejected, memory 1.2 GB`."""
    done, total = glance.done, glance.total
    words = [f"{done:,} of {total:,} samples" if total else f"{done:,} samples"]
    if rate:
        words.append(f"{rate:,.1f} a second")
        if total and total > done:
            words.append(f"{clock((total - done) / rate)} left")
    words.append(f"{glance.rejected:,} rejected")
    if glance.memory:
        words.append(memory_text(glance.memory))
    return ", ".join(words)


def memory_text(memory: Sequence[Memory]) -> str:
    """The fullest device of several; of CPU processes the sum."""
    devices = [each for each in memory if each.total_bytes is not None]
    if not devices:
        return f"memory {sum(each.used_bytes for each in memory) / _GB:.1f} GB"
    fullest = max(devices, key=lambda each: each.used_bytes / (each.total_bytes or 1))
    used, total = fullest.used_bytes / _GB, (fullest.total_bytes or 0) / _GB
    others = len({each.device for each in devices}) > 1
    where = f"{fullest.device}, the fullest," if others else fullest.device
    return f"memory of {where} {used:.1f} of {total:.0f} GB"


def clock(seconds: float) -> str:
    """`0:07`, `12:30`, `5:02:10`."""
    minutes, rest = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
