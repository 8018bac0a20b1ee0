"""Connected components over numbered nodes, by numpy: each node's label is its smallest member."""

import numpy as np


def own_labels(num_nodes: int) -> np.ndarray:
    """int64 [num_nodes]: every node a component of its own."""
    return np.arange(num_nodes, dtype=np.int64)


def merge(labels: np.ndarray, left: np.ndarray, right: np.ndarray) -> None:
    """Join the components of left[i] and right[i], for all i, in place.

    `labels` holds the smallest node of each node's component, before and after. Every round hangs
    each component on the smallest one beside it, so a round at least halves what is left to join.
    """
    while True:
        ends = labels[left], labels[right]
        apart = ends[0] != ends[1]
        if not apart.any():
            return
        left, right = left[apart], right[apart]
        low, high = np.minimum(*ends)[apart], np.maximum(*ends)[apart]
        np.minimum.at(labels, high, low)
        _flatten(labels)


def _flatten(labels: np.ndarray) -> None:
    """Let every label be a root: a node that is its own label."""
    while True:
        above = labels[labels]
        if np.array_equal(above, labels):
            return
        labels[:] = above
