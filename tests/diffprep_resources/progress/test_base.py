import contextlib
from collections import Counter
from collections.abc import Iterator

import pytest

from diffprep_resources.progress.base import Glance, Log, SampleCounts, Show, StageSummary
from diffprep_resources.progress.silent import SilentProgress


def test_counts_add_up_field_by_field():
    one = SampleCounts(5, 4, encoded=3, reused=1, rejects=Counter(no_caption=1))
    two = SampleCounts(3, 1, encoded=1, rejects=Counter(no_caption=1, too_small=1))
    both = one + two
    assert (both.samples_in, both.samples_out, both.encoded, both.reused) == (8, 5, 4, 1)
    assert both.rejects == {"no_caption": 2, "too_small": 1}
    assert both.samples_in == both.samples_out + sum(both.rejects.values())


def test_a_stage_counts_its_partitions_and_keeps_the_reasons():
    progress = SilentProgress()
    with progress.stage("shard", log=lambda _: None, unit="shards", total_samples=9) as shown:
        shown.advance(4)
        shown.partition_done(SampleCounts(4, 4, encoded=4), fresh=False)
        shown.partition_done(SampleCounts(2, 2, reused=2), fresh=True)
        shown.partition_failed("k", "no room")
    summary = progress.summaries["shard"]
    assert (summary.done, summary.fresh, summary.failed) == (1, 1, {"k": "no room"})
    assert summary.samples == SampleCounts(6, 6, encoded=4, reused=2)
    assert summary.seconds > 0


def test_a_stage_that_raises_still_has_its_seconds():
    progress = SilentProgress()
    with pytest.raises(RuntimeError, match="stop"), progress.stage("shard", log=lambda _: None):
        raise RuntimeError("stop")
    assert progress.summaries["shard"].seconds > 0


def test_samples_are_shown_a_few_times_a_second_and_rejects_are_counted_once():
    progress = Watched()
    with progress.stage("shard", log=lambda _: None, unit="shards", total_samples=9000) as shown:
        shown.partition_done(
            SampleCounts(5, 4, reused=4, rejects=Counter(non_finite=1)), fresh=True
        )
        for _ in range(9000):
            shown.advance(1, 0)
        counts = SampleCounts(9000, 8990, encoded=8990, rejects=Counter(non_finite=10))
        shown.partition_done(counts, fresh=False)
    assert 1 <= len(progress.glances) < 100
    assert progress.glances[-1].rejected == 1
    assert progress.summaries["shard"].samples.rejects == {"non_finite": 11}


class Watched(SilentProgress):
    """Keeps what was shown."""

    def __init__(self) -> None:
        super().__init__()
        self.glances: list[Glance] = []

    @contextlib.contextmanager
    def _shown(self, summary: StageSummary, tell: Log) -> Iterator[Show]:
        yield self.glances.append
