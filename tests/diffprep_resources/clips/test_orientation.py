import io

import av
import numpy as np
import pytest

from diffprep_resources.clips.orientation import Orientation, orientation_of
from tests.cases.clip_files import clip, corners, frame_pixels


def orientation(data: bytes, metadata: dict[str, str] | None = None) -> Orientation:
    with av.open(io.BytesIO(data), "r") as container:
        frame = next(container.decode(video=0))
        return orientation_of(frame, metadata=metadata or {})


def test_all_eight_orientations_are_distinct_views() -> None:
    pixels = frame_pixels(0, 32, 24)
    seen = {}
    for number in range(8):
        turned = Orientation(*(bool(number >> bit & 1) for bit in range(3))).upright(pixels)
        assert np.shares_memory(turned, pixels)
        seen[corners(turned)] = turned.shape
    assert len(seen) == 8
    assert sorted(seen.values()) == [(24, 32, 3)] * 4 + [(32, 24, 3)] * 4


@pytest.mark.parametrize(
    ("tag", "degrees"),
    [({"rotate": "90"}, 90), ({"ROTATE": "-270.0"}, 90), ({"Rotate": "180"}, 180)],
)
def test_the_tag_turns_clockwise_in_any_case(tag: dict[str, str], degrees: int) -> None:
    upright = orientation(clip(frames=1), tag).upright(frame_pixels(0, 32, 24))
    assert np.array_equal(upright, np.rot90(frame_pixels(0, 32, 24), -degrees // 90))


@pytest.mark.parametrize("value", ["", "upside down", "inf", "nan"])
def test_a_tag_that_is_no_angle_turns_nothing(value: str) -> None:
    assert orientation(clip(frames=1), {"rotate": value}) == Orientation()


def test_the_matrix_counts_more_than_the_tag() -> None:
    assert orientation(clip(frames=1, rotation=180), {"rotate": "90"}) == Orientation(
        mirrored=True, flipped=True
    )


def test_an_odd_angle_counts_as_the_nearest_quarter_turn() -> None:
    assert orientation(clip(frames=1, rotation=3)) == Orientation()
    assert orientation(clip(frames=1, rotation=88)) == orientation(clip(frames=1, rotation=90))
