import io

from diffprep_resources.clips.frame_order import times_by_order
from tests.cases.clip_files import clip

B_FRAMES = {"x264-params": "bframes=3:b-adapt=0"}


def test_only_an_avi_with_b_frames_gives_times_by_order() -> None:
    data = clip(frames=12, format="avi", options=B_FRAMES)
    assert times_by_order(io.BytesIO(data)) == list(range(1, 13))


def test_frames_that_say_their_own_times_keep_them() -> None:
    for data in (
        clip(frames=12, options=B_FRAMES),
        clip(frames=12, format="avi", options={"bf": "0"}),
        clip(frames=12, format="avi", codec="mpeg4"),
    ):
        assert times_by_order(io.BytesIO(data)) is None
