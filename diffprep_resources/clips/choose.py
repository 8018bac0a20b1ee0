"""Which of a clip's frames are taken for a trainer, and how that came about in words."""

from dataclasses import dataclass
from fractions import Fraction

import xxhash

from diffprep_resources.clips.times import FrameTimes, sample_indices
from diffprep_resources.errors import SampleReject


@dataclass(frozen=True, slots=True)
class ClipSampling:
    """How frames are taken of a clip.

    `frame_counts` are the lengths that a bucket may have, in frames; the longest that the clip
    fills is taken. A clip is too long beyond `length_tolerance * count / train_fps * speed_factor`
    seconds, of the longest count. `random_window` takes a window at a place that `seed` and the
    clip's key decide, instead of the beginning.
    """

    frame_counts: tuple[int, ...] = (77,)
    train_fps: Fraction = Fraction(16)
    speed_factor: Fraction = Fraction(1)
    length_tolerance: Fraction = Fraction(5)
    random_window: bool = False
    seed: int = 0

    @property
    def longest_s(self) -> Fraction:
        """Seconds beyond which a clip is too long."""
        return self.length_tolerance * max(self.frame_counts) / self.train_fps * self.speed_factor


@dataclass(frozen=True, slots=True)
class ChosenFrames:
    """`pts` of the frames in order, as many as one of the counts; `how` says out of how many."""

    pts: tuple[int, ...]
    how: str


def choose_frames(times: FrameTimes, *, sampling: ClipSampling, source_key: str) -> ChosenFrames:
    """The frames to take. Raises SampleReject video_too_short or video_too_long, with numbers."""
    indices = sample_indices(times, train_fps=sampling.train_fps)
    how = _how(times, sampled=len(indices), sampling=sampling)
    if times.duration_s > sampling.longest_s:
        raise SampleReject(
            "video_too_long",
            f"{float(times.duration_s):.2f} s, limit {float(sampling.longest_s):.2f} s; {how}",
        )
    filled = [count for count in sampling.frame_counts if count <= len(indices)]
    if not filled:
        raise SampleReject("video_too_short", how)
    count = max(filled)
    start = 0
    if sampling.random_window:
        start = window_start(len(indices), count, seed=sampling.seed, source_key=source_key)
    return ChosenFrames(tuple(times.pts[i] for i in indices[start : start + count]), how)


def window_start(total: int, count: int, *, seed: int, source_key: str) -> int:
    """Where a window of `count` of `total` frames begins: any place from 0 to `total - count`.

    FastVideo draws with one global, unseeded generator and never takes the last place.
    """
    key = f"{seed}\n{source_key}".encode("utf-8", "surrogatepass")
    return xxhash.xxh3_64_intdigest(key) % (total - count + 1)


def _how(times: FrameTimes, *, sampled: int, sampling: ClipSampling) -> str:
    found = "1 frame" if len(times.pts) == 1 else f"{len(times.pts)} frames"
    varies = "" if times.rate is not None else " (variable)"
    return (
        f"{found} at {float(times.mean_rate):.4g} fps{varies} -> {sampled} at "
        f"{float(sampling.train_fps):g} fps, {min(sampling.frame_counts)} needed"
    )
