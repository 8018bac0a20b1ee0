"""Components of 64-bit hashes that lie near each other, exactly, without comparing all pairs.

Pigeonhole: deal the 64 bits to `max_distance + 2` chunks; two hashes that differ in at most
`max_distance` bits agree on two chunks at least. So for each pair of chunks the hashes are sorted
by those bits, and compared only where they agree on them. One million hashes then stand alone or in
runs of a few, where one chunk for each bit (Manku et al., WWW 2007, section 3) leaves runs of
hundreds.
"""

import itertools
from collections.abc import Iterator

import numpy as np

from diffprep_assets.curate.components import merge, own_labels

BITS = 64
# A longer run is a family of near-equal pictures: it is searched outwards from one member, not pair
# by pair.
LONG_RUN = 256
# Cells of one comparison: 8 bytes each.
CELLS = 1 << 20


def near_components(hashes: np.ndarray, *, max_distance: int) -> np.ndarray:
    """int64 per hash: the smallest index of its component, joined by at most `max_distance` bits.

    `hashes` are distinct uint64. Raises ValueError beyond 0 <= max_distance <= 4, where a chunk
    would be too short to sort by.
    """
    if not 0 <= max_distance <= 4:
        raise ValueError(f"max_distance must be from 0 to 4, got {max_distance}")
    labels = own_labels(len(hashes))
    if max_distance == 0:
        return labels
    for mask in _masks(max_distance + 2):
        masked = hashes & mask
        order = np.argsort(masked)
        _join_runs(order, masked[order], hashes, labels, max_distance=max_distance)
    return labels


def _masks(num_chunks: int) -> Iterator[np.uint64]:
    """The bits of each pair of chunks. Neighbouring bits go to different chunks, since neighbouring
    frequencies of a picture are alike."""
    chunks = [
        sum(1 << bit for bit in range(first, BITS, num_chunks)) for first in range(num_chunks)
    ]
    for one, other in itertools.combinations(chunks, 2):
        yield np.uint64(one | other)


def _join_runs(
    order: np.ndarray,
    masked: np.ndarray,
    hashes: np.ndarray,
    labels: np.ndarray,
    *,
    max_distance: int,
) -> None:
    """Join what is near within each run of equal `masked`; `order` says which hash lies where."""
    starts = np.flatnonzero(np.concatenate(([True], masked[1:] != masked[:-1])))
    lengths = np.diff(np.append(starts, len(masked)))
    for place in np.flatnonzero(lengths > LONG_RUN):
        run = order[starts[place] : starts[place] + lengths[place]]
        _join_family(run, hashes, labels, max_distance=max_distance)
    short = np.where(lengths > LONG_RUN, 0, lengths)
    # How many of its run stand behind each row.
    behind = np.repeat(short, lengths) - (np.arange(len(masked)) - np.repeat(starts, lengths)) - 1
    sorted_hashes = hashes[order]
    rows = np.flatnonzero(behind > 0)
    step = 1
    while len(rows):
        differing = np.bitwise_count(sorted_hashes[rows] ^ sorted_hashes[rows + step])
        near = rows[differing <= max_distance]
        merge(labels, order[near], order[near + step])
        step += 1
        rows = rows[behind[rows] >= step]


def _join_family(
    run: np.ndarray, hashes: np.ndarray, labels: np.ndarray, *, max_distance: int
) -> None:
    """Join what is near within one long run.

    What was reached leaves the rest, so a family of m near-equal hashes costs about m comparisons,
    not m * m / 2; that is for hashes of which none is near another.
    """
    own = labels[run]
    rest = np.argsort(own, kind="stable")
    edges: list[tuple[np.ndarray, np.ndarray]] = []
    while len(rest):
        same = own[rest] == own[rest[0]]
        reached, rest = rest[same], rest[~same]
        block = 1
        while len(reached) and len(rest):
            now, reached = reached[:block], reached[block:]
            near = np.bitwise_count(hashes[run[now]][:, None] ^ hashes[run[rest]]) <= max_distance
            found = near.any(axis=0)
            block = max(1, min(2 * block, CELLS // len(rest)))
            if found.any():
                edges.append((run[now[near.argmax(axis=0)[found]]], run[rest[found]]))
                joined = np.isin(own[rest], own[rest[found]])
                reached, rest = np.concatenate((reached, rest[joined])), rest[~joined]
    if edges:
        left, right = zip(*edges, strict=True)
        merge(labels, np.concatenate(left), np.concatenate(right))
