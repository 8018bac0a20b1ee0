"""Gathers a worker's reports, so that its pipe carries a few a second however small a batch is."""

import time
from collections.abc import Callable

from diffprep_resources.compute.memory import Memory, memory_held

EVERY_S = 0.2
MEMORY_EVERY_S = 2.0

# Samples done, how many of them were left out, and the memory held, None when not looked at.
Told = tuple[int, int, Memory | None]


class PacedReport:
    """A Report that calls `send` at most every EVERY_S; `flush` sends what is left."""

    def __init__(self, send: Callable[[Told], None], device: str) -> None:
        self._send = send
        self._device = device
        self._done = self._rejected = 0
        self._next = self._next_memory = 0.0

    def __call__(self, num_samples: int, rejected: int = 0, /) -> None:
        self._done += num_samples
        self._rejected += rejected
        if time.monotonic() >= self._next:
            self.flush()

    def flush(self) -> None:
        """Send what was gathered, if anything was."""
        if not self._done:
            return
        now = time.monotonic()
        memory = None
        if now >= self._next_memory:
            self._next_memory = now + MEMORY_EVERY_S
            memory = memory_held(self._device)
        self._send((self._done, self._rejected, memory))
        self._done = self._rejected = 0
        self._next = now + EVERY_S
