"""Which frames of a clip are looked at."""

import numpy as np

FRAME_NAMES = ("first", "middle", "last")


def shown_frames(clip_THWC: np.ndarray) -> np.ndarray:
    """The first, the middle and the last frame, [3, H, W, C]; of one frame the same three times."""
    frames = len(clip_THWC)
    return clip_THWC[[0, frames // 2, frames - 1]]
