from fractions import Fraction

import pytest

from diffprep_resources.clips.choose import ClipSampling, choose_frames, window_start
from diffprep_resources.clips.times import FrameTimes
from diffprep_resources.errors import SampleReject


def at_16_fps(count: int) -> FrameTimes:
    return FrameTimes(tuple(range(count)), Fraction(1, 16), Fraction(16))


def chosen(count: int, sampling: ClipSampling, key: str = "a.mp4") -> tuple[int, ...]:
    return choose_frames(at_16_fps(count), sampling=sampling, source_key=key).pts


def test_the_beginning_is_taken() -> None:
    assert chosen(100, ClipSampling()) == tuple(range(77))
    assert chosen(77, ClipSampling()) == tuple(range(77))


def test_of_several_lengths_the_longest_that_the_clip_fills_is_taken() -> None:
    sampling = ClipSampling(frame_counts=(33, 81, 49))
    assert [len(chosen(count, sampling)) for count in (33, 48, 49, 80, 81, 300)] == [
        *(33, 33, 49, 49, 81, 81)
    ]
    with pytest.raises(SampleReject, match="32 frames at 16 fps -> 32 at 16 fps, 33 needed"):
        chosen(32, sampling)


def test_the_speed_factor_only_moves_the_limit() -> None:
    sampling = ClipSampling(speed_factor=Fraction(2))
    assert sampling.longest_s == Fraction("48.125")
    assert chosen(700, sampling) == tuple(range(77))
    with pytest.raises(SampleReject, match=r"video_too_long: 43.75 s, limit 24.06 s"):
        chosen(700, ClipSampling())


def test_a_window_is_the_same_in_every_run_and_another_for_another_clip_or_seed() -> None:
    sampling = ClipSampling(random_window=True)
    first = chosen(300, sampling)
    assert first == chosen(300, sampling)
    assert first == tuple(range(first[0], first[0] + 77))
    assert first != chosen(300, sampling, "b.mp4")
    assert first != chosen(300, ClipSampling(random_window=True, seed=1))


def test_every_place_of_a_window_is_reached_the_last_one_too() -> None:
    starts = [window_start(81, 77, seed=0, source_key=f"{n}.mp4") for n in range(200)]
    assert set(starts) == {0, 1, 2, 3, 4}
    assert window_start(77, 77, seed=0, source_key="a\udcff.mp4") == 0
