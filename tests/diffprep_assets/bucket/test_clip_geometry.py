from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diffprep_assets.bucket.clip_geometry import (
    StoredClip,
    clip_target,
    frames_again,
    sampling_of,
)
from diffprep_assets.bucket.geometry import Target
from diffprep_assets.recipe.video import Video, VideoBuckets

ONE = Fraction(1)
SIZES = ((832, 480), (480, 832), (624, 624), (416, 240))


def size_of(width: int, height: int, *, sar: Fraction = ONE) -> tuple[int, int]:
    target = clip_target(width, height, sar=sar, sizes=SIZES)
    return target.width, target.height


@pytest.mark.parametrize(
    ("shown", "size"),
    [
        ((1920, 1080), (832, 480)),
        ((1080, 1920), (480, 832)),
        ((700, 650), (624, 624)),
        ((650, 700), (624, 624)),
        # Of one aspect the largest that the clip fills, else the smallest.
        ((830, 480), (416, 240)),
        ((100, 60), (416, 240)),
    ],
)
def test_a_clip_takes_the_size_of_the_nearest_aspect(shown, size):
    assert size_of(*shown) == size


def test_upright_and_lying_clips_are_told_alike():
    sizes = SIZES[:3]
    for side in range(300, 1500, 7):
        wide = clip_target(side, 701, sar=ONE, sizes=sizes)
        tall = clip_target(701, side, sar=ONE, sizes=sizes)
        assert (wide.width, wide.height) == (tall.height, tall.width)


def test_the_shown_aspect_counts_and_the_crop_is_in_stored_pixels():
    sar = Fraction(4, 3)
    target = clip_target(72, 96, sar=sar, sizes=((96, 96), (128, 80)))
    assert target == Target(96, 96, 96, 0, 0, 72, 96)
    wide = clip_target(720, 576, sar=Fraction(64, 45), sizes=((832, 480), (624, 624)))
    assert (wide.width, wide.height, wide.tier) == (832, 480, 480)
    assert (wide.crop_width, wide.crop_height) == (702, 576)
    assert abs(wide.crop_width * Fraction(64, 45) / wide.crop_height - Fraction(832, 480)) < 0.01


@given(st.integers(1, 8000), st.integers(1, 8000), st.fractions(Fraction(1, 4), 4))
def test_a_crop_lies_within_the_clip_whatever_its_size(width, height, sar):
    target = clip_target(width, height, sar=sar, sizes=SIZES)
    assert 0 <= target.crop_left <= width - target.crop_width
    assert 0 <= target.crop_top <= height - target.crop_height
    assert target.crop_width == width or target.crop_height == height
    assert (target.width, target.height) in SIZES


def again(frames: tuple[int, ...], *, found: int = 50, seconds: float = 3.0, **video):
    stored = StoredClip(seconds, found, tuple(range(33)))
    settings = Video(buckets=VideoBuckets(frames=frames), **video)
    return frames_again(stored, sampling=sampling_of(settings))


def test_a_shorter_count_takes_the_beginning_of_what_was_taken():
    assert again((17,)) == tuple(range(17))
    assert again((17, 33)) == tuple(range(33))
    # 61 frames are more than the clip has.
    assert again((33, 61)) == tuple(range(33))


def test_what_the_table_does_not_hold_opens_the_clip_again():
    assert again((49,)) is None
    assert again((61,)) is None
    assert again((17,), seconds=5.4) is None
    assert again((17,), do_temporal_sample=True) is None
    assert again((33,), do_temporal_sample=True) == tuple(range(33))
