"""Which of the hashes of a component stay: such that each that goes is near one that stays."""

import numpy as np


def stands_for(
    hashes: np.ndarray,
    *,
    components: np.ndarray,
    rank: np.ndarray,
    fixed: np.ndarray,
    max_distance: int,
) -> np.ndarray:
    """int64 per hash: the one that stays in its place; its own index where it stays itself.

    In order of `rank`, lowest first, a hash stays unless one of its component that stays already
    is within `max_distance` bits; `fixed` ones stay in any case. One for each component would not
    do: where pictures lie dense, a component is a chain whose ends have nothing in common.
    """
    chosen = np.arange(len(hashes), dtype=np.int64)
    rest = np.lexsort((rank, components))
    while len(rest):
        # One round for all components at once: the first of each stays, and takes others away.
        of = components[rest]
        is_first = np.concatenate(([True], of[1:] != of[:-1]))
        first = rest[np.flatnonzero(is_first)[np.cumsum(is_first) - 1]]
        near = np.bitwise_count(hashes[rest] ^ hashes[first]) <= max_distance
        goes = near & ~fixed[rest] & ~is_first
        chosen[rest[goes]] = first[goes]
        rest = rest[~(goes | is_first)]
    return chosen
