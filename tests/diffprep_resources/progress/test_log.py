import pytest

from diffprep_resources.progress import log
from diffprep_resources.progress.log import LogProgress, pace


def test_the_pace_names_rate_and_time_left():
    assert pace(120, 1000, 10.0) == "120 of 1000 samples, 12.0 a second, 73 s left"
    assert pace(120, None, 10.0) == "120 samples, 12.0 a second"
    assert pace(0, 10, 0.0) == "0 of 10 samples, 0.0 a second"
    assert pace(20, 10, 1.0).endswith("0 s left")


def test_a_quick_stage_says_nothing_and_a_long_one_speaks_now_and_then(
    monkeypatch: pytest.MonkeyPatch,
):
    lines: list[str] = []
    with LogProgress().stage("shard", log=lines.append, total_samples=100) as shown:
        shown.advance(50)
    assert lines == []
    monkeypatch.setattr(log, "EVERY_S", 0.0)
    with LogProgress().stage("shard", log=lines.append, total_samples=100) as shown:
        shown.advance(50)
        shown.advance(25)
    assert [line.split(",")[0] for line in lines] == [
        "shard: 50 of 100 samples",
        "shard: 75 of 100 samples",
    ]
