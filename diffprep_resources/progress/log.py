"""Progress as lines in a run's log, at a pace that a person can read."""

import contextlib
import time
from collections.abc import Callable, Iterator

from diffprep_resources.progress.base import Progress

EVERY_S = 15.0


class LogProgress(Progress):
    """One line a quarter of a minute, with rate and time left; none for a quick stage."""

    @contextlib.contextmanager
    def _shown(
        self, name: str, total_samples: int | None, log: Callable[[str], None]
    ) -> Iterator[Callable[[int, int], None]]:
        begin = last = time.monotonic()

        def show(done: int, rejects: int) -> None:
            nonlocal last
            now = time.monotonic()
            if now - last >= EVERY_S:
                last = now
                log(f"{name}: {pace(done, total_samples, now - begin)}, {rejects} rejected")

        yield show


def pace(done: int, total: int | None, seconds: float) -> str:
    """`120 of 1000 samples, 12.0 a second, 73 s left`."""
    rate = done / seconds if seconds > 0 else 0.0
    words = f"{done} of {total} samples" if total else f"{done} samples"
    words += f", {rate:.1f} a second"
    if total and rate > 0:
        words += f", {max(0, total - done) / rate:.0f} s left"
    return words
