"""Samples that share their caption."""

import numpy as np
import pyarrow as pa
import pytest

from diffprep_assets.plan_report.kept_rows import KeptRows
from diffprep_assets.plan_report.repeats import RepeatCounter, Repeats


def counted(digests: np.ndarray, *, most_held: int = 10**9) -> Repeats:
    counter = RepeatCounter(len(digests), most_held=most_held)
    samples = np.random.default_rng(7).integers(0, 2**64, len(digests), dtype=np.uint64)
    for start in range(0, len(digests), 1000):
        some = digests[start : start + 1000]
        column = pa.array([f"{int(digest):016x}{0:016x}" for digest in some])
        batch = pa.record_batch({"caption_digest": column})
        counter.add(KeptRows(batch, some, some), samples[start : start + 1000])
    return counter.repeats()


def distinct(count: int) -> np.ndarray:
    return np.random.default_rng(1).integers(0, 2**64, count, dtype=np.uint64)


def test_all_are_counted_where_they_are_few():
    digests = np.concatenate([distinct(6), distinct(2), distinct(1)])
    found = counted(digests)
    assert found == Repeats(5 / 9, int(distinct(1)[0]), 3, exact=True)


def test_captions_of_their_own_are_not_repeated():
    found = counted(distinct(100))
    assert (found.share, found.commonest_samples) == (0.0, 1)


def test_no_sample_has_no_caption():
    assert counted(distinct(0)) == Repeats(0.0, None, 0, exact=True)


def test_many_pairs_are_told_from_a_part_of_the_captions():
    digests = np.concatenate([distinct(20_000), distinct(5_000)])
    found = counted(digests, most_held=4000)
    assert not found.exact
    assert found.share == pytest.approx(10_000 / 25_000, rel=0.15)


def test_one_common_caption_is_not_missed_when_its_hash_is_not_looked_at():
    common = np.full(5000, 2**64 - 2, np.uint64)
    found = counted(np.concatenate([common, distinct(20_000)]), most_held=2500)
    assert found.commonest == 2**64 - 2
    assert found.share == pytest.approx(0.2, rel=0.2)
    assert found.commonest_samples == pytest.approx(5000, rel=0.2)
