"""Some of very many items, chosen by hash: the same ones each time, in bounded memory."""

import heapq
from collections.abc import Callable
from typing import Generic, TypeVar

import numpy as np

Item = TypeVar("Item")


class SeededChoice(Generic[Item]):
    """The items with the smallest hashes, at most `size`; `seen` counts all that were offered."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._seen = 0
        self._heap: list[tuple[int, int, Item]] = []

    def offer(self, hashes: np.ndarray, item: Callable[[int], Item]) -> None:
        """Items number 0 to n - 1 by their hashes (uint64); `item` is called for few of them."""
        full = len(self._heap) == self._size
        worth = hashes < -self._heap[0][0] if full else np.ones(len(hashes), bool)
        for number in np.flatnonzero(worth).tolist():
            rank = -int(hashes[number])
            if len(self._heap) < self._size:
                heapq.heappush(self._heap, (rank, -(self._seen + number), item(number)))
            elif rank > self._heap[0][0]:
                heapq.heapreplace(self._heap, (rank, -(self._seen + number), item(number)))
        self._seen += len(hashes)

    @property
    def seen(self) -> int:
        return self._seen

    @property
    def items(self) -> list[Item]:
        """The chosen ones, in the order in which they were offered."""
        return [item for _, _, item in sorted(self._heap, key=lambda entry: -entry[1])]
