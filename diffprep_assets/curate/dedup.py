"""Which of the pictures that are duplicates of each other are kept.

Pictures are duplicates where their bytes are equal, or their perceptual hashes differ in few bits.
What is joined so, step by step, is one component, which is one split group. Of a component, one
picture is kept, and where it is a chain, those too that are not near one that is kept.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from diffprep_assets.curate.components import merge, own_labels
from diffprep_assets.curate.keepers import stands_for
from diffprep_assets.curate.near_hashes import BITS, near_components


@dataclass(frozen=True, slots=True)
class Duplicate:
    """A picture of a component of two or more. `component` is the smallest key in it; `message`
    says whose duplicate a picture is that goes, and is None for one that is kept."""

    key: str
    component: str
    keep: bool
    message: str | None


def duplicates(
    pictures: pa.Table, *, max_distance: int | None, replace: bool = False
) -> list[Duplicate]:
    """Every picture that has a duplicate, kept or not, by component and key.

    One row per picture, in any order: `key` string, the picture's source_key (`group` of the bucket
    table); `image_digest` string; `area` int64, in pixels of the upright picture; `planned` bool,
    whether it is in a shard that was written; `hash` uint64, null without one. `max_distance` None
    compares digests only and needs no `hash`.

    The largest picture is kept, of equal ones that with the smallest key; what is equal or near to
    it goes, and so on with the rest. So whatever goes has a duplicate that is kept. A planned
    picture wins over all that are not, and nothing that is planned goes, even where two of them
    turn out to be duplicates. With `replace`, being planned counts for nothing, as if the dataset
    were made anew.

    Leave out what filters reject, or it might be what is kept; not what a list skips, or its copies
    would come in its place. Raises ValueError for a key that comes twice.
    """
    rows = pictures.sort_by("key")
    keys = rows.column("key").to_pylist()
    if any(key == next_key for key, next_key in itertools.pairwise(keys)):
        raise ValueError("each picture must be given once; a key comes twice")
    planned = np.zeros(len(keys), bool) if replace else rows.column("planned").to_numpy()
    rank = _rank(rows.column("area").to_numpy(), planned)
    equal = _equal(rows, by_hash=max_distance is not None)
    components, kept = equal, _first_of(equal, rank)
    if max_distance:
        components, kept = _near(rows, equal, kept, rank=rank, planned=planned, most=max_distance)
    members = np.flatnonzero(np.bincount(components, minlength=len(keys))[components] > 1)
    stays = (planned | (kept == own_labels(len(keys))))[members].tolist()
    of = [keys[row] for row in components[members].tolist()]
    messages = _messages(rows, members, kept[members], keys)
    found = [
        Duplicate(keys[row], component, keep, None if keep else message)
        for row, component, keep, message in zip(members.tolist(), of, stays, messages, strict=True)
    ]
    return sorted(found, key=lambda picture: (picture.component, picture.key))


def _rank(area: np.ndarray, planned: np.ndarray) -> np.ndarray:
    """int64 per row, which are sorted by key: its place in line. Planned ones come first, then the
    largest, then the smallest key."""
    rank = np.empty(len(area), np.int64)
    rank[np.lexsort((-area, ~planned))] = own_labels(len(area))
    return rank


def _equal(rows: pa.Table, *, by_hash: bool) -> np.ndarray:
    """int64 per row: the first row of those joined to it by equal bytes or equal hashes."""
    labels = own_labels(len(rows))
    digests = _digest_numbers(rows)
    first = np.unique(digests, return_index=True)[1]
    merge(labels, own_labels(len(rows)), first[digests])
    if by_hash:
        hashed = np.flatnonzero(rows.column("hash").is_valid().to_numpy())
        values = _hashes(rows)[hashed]
        first, which = np.unique(values, return_index=True, return_inverse=True)[1:]
        merge(labels, hashed, hashed[first[which]])
    return labels


def _first_of(labels: np.ndarray, rank: np.ndarray) -> np.ndarray:
    """int64 per row: the row of lowest rank with its label."""
    best = np.full(len(labels), len(labels), np.int64)
    np.minimum.at(best, labels, rank)
    return np.argsort(rank)[best[labels]]


def _near(
    rows: pa.Table,
    equal: np.ndarray,
    kept: np.ndarray,
    *,
    rank: np.ndarray,
    planned: np.ndarray,
    most: int,
) -> tuple[np.ndarray, np.ndarray]:
    """`equal` and `kept` over the rows that are near, too."""
    hashed = rows.column("hash").is_valid().to_numpy()
    heads = np.flatnonzero((equal == own_labels(len(equal))) & hashed)
    hashes = _hashes(rows)[heads]
    near = near_components(hashes, max_distance=most)
    components = equal.copy()
    merge(components, heads, heads[near])
    best = kept[heads]
    chosen = stands_for(
        hashes, components=near, rank=rank[best], fixed=planned[best], max_distance=most
    )
    kept_of_head = kept.copy()
    kept_of_head[heads] = best[chosen]
    return components, kept_of_head[equal]


def _messages(
    rows: pa.Table, members: np.ndarray, kept: np.ndarray, keys: list[str]
) -> Iterator[str]:
    """For each of these rows what it has to do with the row that is kept."""
    digests, hashes = _digest_numbers(rows), _hashes(rows)
    same = (digests[members] == digests[kept]).tolist()
    differing = np.bitwise_count(hashes[members] ^ hashes[kept]).tolist()
    for row, is_same, bits in zip(kept.tolist(), same, differing, strict=True):
        if is_same:
            yield f"the same bytes as {keys[row]}"
        else:
            yield f"near-duplicate of {keys[row]}, {bits} of {BITS} bits differ"


def _digest_numbers(rows: pa.Table) -> np.ndarray:
    """A number for each digest, in the order in which they first come."""
    digests = rows.column("image_digest").combine_chunks()
    return digests.dictionary_encode().indices.to_numpy()


def _hashes(rows: pa.Table) -> np.ndarray:
    """uint64 per row; 0 without a hash."""
    if "hash" not in rows.column_names:
        return np.zeros(len(rows), np.uint64)
    return rows.column("hash").fill_null(0).to_numpy()
