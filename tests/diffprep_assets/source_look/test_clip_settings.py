from collections import Counter
from dataclasses import replace

import pytest

from diffprep_assets.bucket.table import BucketRow
from diffprep_assets.source_look.clip_settings import clip_sizes, num_frames, video_choice


@pytest.mark.parametrize(
    ("found", "frames"),
    [([], 77), ([500] * 9 + [80], 77), ([60] * 10, 57), ([3] * 5 + [100] * 5, 5), ([76], 73)],
)
def test_nearly_all_clips_fill_the_frames_chosen(found: list[int], frames: int) -> None:
    assert num_frames(found) == frames


@pytest.mark.parametrize(
    ("shown", "sizes"),
    [
        ([], [(832, 480)]),
        ([(1920, 1080)] * 20 + [(1080, 1920)], [(832, 480)]),
        ([(1080, 1920)] * 3, [(480, 832)]),
        ([(1920, 1080), (1080, 1080), (1920, 1080)], [(832, 480), (624, 624)]),
        ([(256, 144)] * 4, [(256, 144)]),
    ],
)
def test_sizes_follow_the_shapes_and_the_pixels_that_are_there(
    shown: list[tuple[int, int]], sizes: list[tuple[int, int]]
) -> None:
    assert clip_sizes(shown) == sizes


def test_what_the_settings_chosen_reject_is_counted() -> None:
    row = BucketRow(
        "a", "a", "a", stamp="", media="clip", original_width=1920, original_height=1080
    )
    rows = [
        _clip(row, seconds=6.0, found=96),
        _clip(row, seconds=6.0, found=96, notes=("HDR, PQ (SMPTE ST 2084): taken",)),
        _clip(row, seconds=60.0, found=960),
        *[_clip(row, seconds=6.0, found=96)] * 17,
        _clip(row, seconds=1.0, found=16),
    ]
    choice = video_choice(rows)
    assert choice.section["num_frames"] == 77
    assert choice.left_out(rows) == Counter(
        {"unsupported_colour": 1, "video_too_long": 1, "video_too_short": 1}
    )


def _clip(row: BucketRow, *, seconds: float, found: int, notes: tuple[str, ...] = ()) -> BucketRow:
    return replace(row, duration_s=seconds, frames_found=found, notes=notes)
