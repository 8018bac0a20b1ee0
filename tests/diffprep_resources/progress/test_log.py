from collections import Counter
from itertools import pairwise

import pytest

from diffprep_resources.progress import base, log
from diffprep_resources.progress.base import Glance, SampleCounts
from diffprep_resources.progress.log import LogProgress, _Pace


def test_a_quick_stage_says_one_line_at_its_end_and_to_both():
    lines: list[str] = []
    echoed: list[str] = []
    progress = LogProgress(echo=echoed.append)
    with progress.stage("shard", log=lines.append, unit="shards", total_samples=100) as shown:
        shown.tell("shard: 1 of 2 shards to make, 100 samples")
        shown.advance(100)
        counts = SampleCounts(100, 98, encoded=98, rejects=Counter(non_finite=2))
        shown.partition_done(counts, fresh=False)
    assert lines == echoed
    assert lines[1].startswith(
        "shard: 1 shard made, 0 fresh, 98 samples, 2 rejected (non_finite 2), 0."
    )
    assert len(lines) == 2


def test_a_stage_that_raises_has_no_line_at_its_end():
    lines: list[str] = []
    with (
        pytest.raises(RuntimeError),
        LogProgress().stage("shard", log=lines.append, unit="shards", total_samples=100),
    ):
        raise RuntimeError("stop")
    assert lines == []


def test_a_long_stage_speaks_now_and_then(monkeypatch: pytest.MonkeyPatch):
    lines: list[str] = []
    monkeypatch.setattr(log, "EVERY_S", 0.0)
    monkeypatch.setattr(base, "GLANCE_S", 0.0)
    with LogProgress().stage("shard", log=lines.append, total_samples=100) as shown:
        shown.advance(50)
        shown.advance(25, 2)
    assert [line.split(",")[0] for line in lines] == [
        "shard: 50 of 100 samples",
        "shard: 75 of 100 samples",
    ]
    assert lines[1].endswith("2 rejected")


def due(total: int, seconds: float, samples: int) -> list[float]:
    """Seconds at which a line is due in a stage that shows itself each second."""
    pace = _Pace(0.0)
    return [
        second
        for second in range(1, int(seconds))
        if pace.is_due(second, Glance(int(samples * second / seconds), total, 0))
    ]


def test_there_is_a_line_at_each_tenth():
    assert due(1000, 100, 1000) == [10, 20, 30, 40, 50, 60, 70, 80, 90]


def test_a_quick_stage_does_not_say_every_tenth():
    assert due(1000, 10, 1000) == [5]
    assert due(1000, 18, 1000) == [5, 10, 15]


def test_a_stage_of_ten_hours_speaks_within_half_a_minute_and_fills_no_log():
    lines = due(1_000_000, 36_000, 1_000_000)
    assert lines[0] == 30
    assert 50 < len(lines) < 200
    assert max(after - before for before, after in pairwise(lines)) <= 1800


def test_a_stage_whose_total_is_not_known_speaks_all_the_same():
    assert due(0, 100, 1000) == [30, 60, 90]
