import gc
import io
from collections.abc import Sequence
from fractions import Fraction

import av
import numpy as np
import pytest
import torch

from diffprep_resources.clips.pixels import read_pixels, upright_frame
from diffprep_resources.errors import SampleReject
from tests.cases.clip_files import clip

DATA = clip(width=160, height=90, frames=12, noisy=True)
TICKS = 512


def pixels_of(numbers: Sequence[int]) -> np.ndarray:
    return read_pixels(
        io.BytesIO(DATA), wanted_pts=[n * TICKS for n in numbers], width=64, height=48
    )


def test_pixels_equal_those_of_the_whole_clip_decoded_cropped_and_resized_at_once() -> None:
    """FastVideo's order of work: all frames, one crop, one uint8 interpolation."""
    with av.open(io.BytesIO(DATA), "r") as container:
        whole = np.stack([f.to_ndarray(format="rgb24") for f in container.decode(video=0)])
    cropped = torch.from_numpy(whole).permute(0, 3, 1, 2)[..., 20:140]
    wanted = torch.nn.functional.interpolate(
        cropped, size=(48, 64), mode="bilinear", align_corners=True, antialias=True
    )
    got = torch.from_numpy(pixels_of(range(12))).permute(0, 3, 1, 2)
    assert torch.equal(got, wanted)


def test_frames_come_in_the_order_asked_for_and_as_often() -> None:
    some, all_of_them = pixels_of([3, 0, 3, 7]), pixels_of(range(12))
    assert np.array_equal(some, all_of_them[[3, 0, 3, 7]])
    assert some.dtype == np.uint8
    assert some.flags.c_contiguous


def test_no_frame_outlives_the_reading() -> None:
    """PyAV ties a frame whose side data was looked at into a cycle, with all its pixels."""
    gc.collect()
    gc.disable()
    try:
        pixels_of(range(12))
        frames = [one for one in gc.get_objects() if type(one) is av.VideoFrame]
    finally:
        gc.enable()
    assert all(frame.width <= 16 for frame in frames)


def test_a_time_at_which_no_frame_is_shown_is_told() -> None:
    with pytest.raises(SampleReject, match=r"1 of 2 frames do not decode, the first at 0.04[12] s"):
        read_pixels(io.BytesIO(DATA), wanted_pts=[0, TICKS + 1], width=64, height=48)


def test_a_whole_frame_is_upright_and_as_wide_as_a_player_shows_it() -> None:
    turned = io.BytesIO(clip(rotation=90))
    frame = upright_frame(turned, pts=5 * TICKS)
    assert np.array_equal(
        frame, read_pixels(turned, wanted_pts=[5 * TICKS], width=96, height=128)[0]
    )
    wide = upright_frame(io.BytesIO(clip(sar=Fraction(4, 3), width=72)), pts=0)
    assert wide.shape == (96, 96, 3)


def test_a_whole_frame_that_is_not_there_is_told() -> None:
    with pytest.raises(SampleReject, match="no frame decodes at 77"):
        upright_frame(io.BytesIO(DATA), pts=77)
