"""From a clip's shape and times to its bucket: its size, the crop that fills it, its frames."""

import math
from dataclasses import dataclass
from fractions import Fraction

from diffprep_assets.bucket.geometry import Target
from diffprep_assets.recipe.video import Video
from diffprep_resources.clips.choose import ClipSampling
from diffprep_resources.clips.crop import crop_box

# Closer than this to the limit on its length, a clip is opened again: the table's seconds are
# rounded.
_ROUNDED_S = 1e-6


@dataclass(frozen=True, slots=True)
class StoredClip:
    """What the bucket table holds of a clip's frames. `frames_found` counts those that it has at
    the recipe's rate; those at `wanted_pts` were taken of them."""

    duration_s: float
    frames_found: int
    wanted_pts: tuple[int, ...]


def sampling_of(video: Video) -> ClipSampling:
    """How the recipe takes frames of a clip."""
    return ClipSampling(
        frame_counts=video.frame_counts,
        train_fps=video.train_fps,
        speed_factor=video.speed_factor,
        length_tolerance=video.video_length_tolerance_range,
        random_window=video.do_temporal_sample,
        seed=video.seed,
    )


def clip_target(
    width: int, height: int, *, sar: Fraction, sizes: tuple[tuple[int, int], ...]
) -> Target:
    """What a clip of this upright, stored size becomes; the tier is the shorter side.

    It takes the size whose aspect is nearest to that shown: least is cut away, upright and lying
    alike. A tie goes to the narrower; of one aspect, to the largest that the clip fills.
    """
    shown = Fraction(width, height) * sar
    nearest = min({Fraction(*size) for size in sizes}, key=lambda one: (_apart(one, shown), one))
    ladder = sorted(size for size in sizes if Fraction(*size) == nearest)
    filled = [size for size in ladder if _fills(width, height, sar=sar, to=size)]
    to = filled[-1] if filled else ladder[0]
    crop = crop_box(width, height, to=to, sar=sar)
    return Target(min(to), *to, crop.left, crop.top, crop.width, crop.height)


def frames_again(clip: StoredClip, *, sampling: ClipSampling) -> tuple[int, ...] | None:
    """The frames to take for other frame counts, as far as what is stored tells; else None.

    A shorter count takes the beginning of what was taken. Windows that are drawn lie elsewhere for
    every count.
    """
    fewer = [count for count in sampling.frame_counts if count <= clip.frames_found]
    if not fewer or clip.duration_s > float(sampling.longest_s) - _ROUNDED_S:
        return None
    count, taken = max(fewer), len(clip.wanted_pts)
    if count == taken:
        return clip.wanted_pts
    if count > taken or sampling.random_window:
        return None
    return clip.wanted_pts[:count]


def _apart(first: Fraction, second: Fraction) -> Fraction:
    return max(first / second, second / first)


def _fills(width: int, height: int, *, sar: Fraction, to: tuple[int, int]) -> bool:
    """Whether no side grows: the side that is stored too coarsely counts as it is shown."""
    shown = (width * sar, height) if sar >= 1 else (width, height / sar)
    return math.floor(shown[0]) >= to[0] and math.floor(shown[1]) >= to[1]
