from diffprep_resources.compute.memory import Memory
from diffprep_resources.progress.base import Glance
from diffprep_resources.progress.pace import Rate, clock, memory_text, pace_text


def test_the_pace_names_rate_time_left_rejects_and_memory():
    glance = Glance(120, 1000, 3, [Memory("cpu", 1_000_000_000), Memory("cpu", 240_000_000)])
    assert pace_text(glance, 12.0) == (
        "120 of 1,000 samples, 12.0 a second, 1:13 left, 3 rejected, memory 1.2 GB"
    )
    assert pace_text(Glance(120, None, 0), 12.0) == "120 samples, 12.0 a second, 0 rejected"
    assert pace_text(Glance(0, 10, 0), None) == "0 of 10 samples, 0 rejected"
    assert "left" not in pace_text(Glance(20, 10, 0), 1.0)


def test_of_several_devices_the_fullest_is_shown():
    one, two = Memory("cuda:0", 10 * 10**9, 80 * 10**9), Memory("cuda:1", 41 * 10**9, 80 * 10**9)
    assert memory_text([one]) == "memory of cuda:0 10.0 of 80 GB"
    assert memory_text([one, two]) == "memory of cuda:1, the fullest, 41.0 of 80 GB"


def test_the_rate_forgets_what_was_over_a_minute_ago():
    rate = Rate()
    assert rate.per_second() is None
    rate.add(0.0, 1)
    assert rate.per_second() is None
    for second in range(100, 200):
        rate.add(float(second), 1 + 5 * (second - 100))
    assert rate.per_second() == 5.0


def test_times_are_written_as_on_a_clock():
    assert [clock(seconds) for seconds in (-1, 7, 750, 18130)] == [
        "0:00",
        "0:07",
        "12:30",
        "5:02:10",
    ]
