import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diffprep_assets.curate import near_hashes
from diffprep_assets.curate.near_hashes import near_components

MAX_DISTANCES = st.integers(0, 4)
# A few centres with some bits turned: near ones, chains, and strangers.
HASHES = st.lists(
    st.builds(
        lambda centre, bits: centre ^ sum(1 << bit for bit in bits),
        st.sampled_from((0, 0x0F0F_1234_5678_9ABC, 2**64 - 1)),
        st.sets(st.integers(0, 63), max_size=7),
    ),
    unique=True,
    max_size=40,
)


def by_all_pairs(hashes: np.ndarray, max_distance: int) -> list[int]:
    """Labels by comparing every pair until nothing changes."""
    labels = list(range(len(hashes)))
    near = np.bitwise_count(hashes[:, None] ^ hashes) <= max_distance
    changed = True
    while changed:
        changed = False
        for one, other in np.argwhere(near):
            if labels[other] < labels[one]:
                labels[one], changed = labels[other], True
    return labels


def turned(hashes: np.ndarray, most: int, seed: int = 0) -> np.ndarray:
    """The hashes with up to this many bits turned."""
    rng = np.random.default_rng(seed)
    for _ in range(most):
        bit = np.uint64(1) << rng.integers(0, 64, len(hashes), dtype=np.uint64)
        hashes = hashes ^ np.where(rng.random(len(hashes)) < 0.7, bit, np.uint64(0))
    return hashes


@given(HASHES, MAX_DISTANCES)
def test_components_are_those_of_all_pairs(values, max_distance):
    hashes = np.array(values, np.uint64)
    found = near_components(hashes, max_distance=max_distance)
    assert found.tolist() == by_all_pairs(hashes, max_distance)


@given(HASHES, MAX_DISTANCES, st.integers(1, 6))
@settings(deadline=None)
def test_a_family_is_searched_to_the_same_components(values, max_distance, long_run):
    hashes = np.array(values, np.uint64)
    with pytest.MonkeyPatch.context() as patch:
        # So that these few are families, of which every comparison takes a few cells only.
        patch.setattr(near_hashes, "LONG_RUN", long_run)
        patch.setattr(near_hashes, "CELLS", 8)
        found = near_components(hashes, max_distance=max_distance)
    assert found.tolist() == by_all_pairs(hashes, max_distance)


def test_two_hashes_at_every_distance_up_to_eight():
    rng = np.random.default_rng(0)
    for bits in range(1, 9):
        for _ in range(40):
            flips = sum(1 << int(bit) for bit in rng.choice(64, bits, replace=False))
            pair = np.array([12345, 12345 ^ flips], np.uint64)
            for most in range(5):
                joined = near_components(pair, max_distance=most)[1] == 0
                assert joined == (bits <= most)


def test_thousands_of_near_equal_hashes_take_no_more_than_a_moment():
    hashes = np.unique(turned(np.full(20_000, 987_654_321, np.uint64), 4))
    start = time.perf_counter()
    assert not near_components(hashes, max_distance=4).any()
    # 0.1 s on an idle core; each pair by itself would be 90 million comparisons for each of 15
    # masks.
    assert time.perf_counter() - start < 5


def test_a_distance_that_the_chunks_do_not_allow_is_refused():
    with pytest.raises(ValueError, match="from 0 to 4, got 5"):
        near_components(np.zeros(1, np.uint64), max_distance=5)


@pytest.mark.long
def test_a_million_hashes_with_copies_among_them_are_joined_in_seconds():
    hashes = np.random.default_rng(0).integers(0, 2**64, 1_000_000, dtype=np.uint64)
    hashes[:100_000] = turned(hashes[100_000:200_000], 4)
    hashes = np.unique(hashes)
    start = time.perf_counter()
    labels = near_components(hashes, max_distance=4)
    assert time.perf_counter() - start < 20
    assert len(np.unique(labels)) == 900_000
