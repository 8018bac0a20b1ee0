from fractions import Fraction

import numpy as np
import pytest

from diffprep_resources.clips.times import FrameTimes, frame_times, is_constant, sample_indices

MS = Fraction(1, 1000)
NTSC = Fraction(24_000, 1001)
RATES = (Fraction(12), NTSC, Fraction(24), Fraction(25), Fraction(30_000, 1001), Fraction(60))


def constant(count: int, rate: Fraction) -> FrameTimes:
    pts = [round(i / rate / MS) + 700 for i in range(count)]
    return frame_times(pts, time_base=MS, rates=(rate,))


@pytest.mark.parametrize("rate", RATES, ids=str)
@pytest.mark.parametrize("train_fps", [8, 15, 16, 24])
def test_a_constant_rate_gives_numpys_arange(rate: Fraction, train_fps: int) -> None:
    for count in (1, 2, 77, 101, 192):
        times = constant(count, rate)
        assert times.rate == rate
        wanted = np.arange(0, count, float(rate) / train_fps).astype(int).tolist()
        assert sample_indices(times, train_fps=Fraction(train_fps)) == wanted


def test_the_first_stated_rate_that_the_times_keep_to_counts() -> None:
    pts = [i * 40 for i in range(50)]
    rates = (None, Fraction(24), Fraction(25), Fraction(50))
    assert frame_times(pts, time_base=MS, rates=rates).rate == 25
    assert frame_times(pts, time_base=MS, rates=(Fraction(24),)).rate is None


def test_one_frame_late_by_more_than_a_tick_is_no_constant_rate() -> None:
    pts = [0, 40, 80, 121, 160]
    assert is_constant(pts, rate=Fraction(25), time_base=MS)
    assert not is_constant([0, 40, 80, 122, 160], rate=Fraction(25), time_base=MS)


def test_at_a_variable_rate_the_frame_on_screen_is_taken() -> None:
    times = frame_times([0, 100, 150, 500, 600], time_base=MS, rates=())
    assert times.duration_s == Fraction(7, 10)
    assert sample_indices(times, train_fps=Fraction(10)) == [0, 1, 2, 2, 2, 3, 4]


def test_times_are_sorted_and_stand_once() -> None:
    assert frame_times([80, 0, 40, 40], time_base=MS, rates=()).pts == (0, 40, 80)


def test_a_single_frame_of_unknown_length_is_one_frame() -> None:
    times = frame_times([500], time_base=MS, rates=())
    assert (times.mean_rate, times.duration_s, times.seconds_at(500)) == (0, 0, 0.0)
    assert sample_indices(times, train_fps=Fraction(16)) == [0]
