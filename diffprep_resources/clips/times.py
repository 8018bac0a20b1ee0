"""When a clip's frames are shown, and which of them a trainer's frame rate takes."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class FrameTimes:
    """`pts` are the times at which frames are shown, rising, in ticks of `time_base` seconds.

    `rate` is the constant rate in frames a second, None where the rate varies.
    """

    pts: tuple[int, ...]
    time_base: Fraction
    rate: Fraction | None

    @property
    def duration_s(self) -> Fraction:
        """From the first frame's beginning to the last one's end; a last frame is shown for as
        long as the one before it."""
        if self.rate is not None:
            return len(self.pts) / self.rate
        *before, end = self.pts
        last = end - before[-1] if before else 0
        return (end - self.pts[0] + last) * self.time_base

    @property
    def mean_rate(self) -> Fraction:
        """Frames a second, over the whole clip; 0 for a single frame of unknown length."""
        if self.rate is not None:
            return self.rate
        duration = self.duration_s
        return len(self.pts) / duration if duration else Fraction(0)

    def seconds_at(self, pts: int) -> float:
        """Seconds from the first frame to this time."""
        return float((pts - self.pts[0]) * self.time_base)


def frame_times(
    pts: Iterable[int], *, time_base: Fraction, rates: Iterable[Fraction | None]
) -> FrameTimes:
    """The times in order, with the first of the stated `rates` that they keep to."""
    shown = tuple(sorted(set(pts)))
    kept = (rate for rate in rates if rate and is_constant(shown, rate=rate, time_base=time_base))
    return FrameTimes(shown, time_base, next(kept, None))


def is_constant(pts: Sequence[int], *, rate: Fraction, time_base: Fraction) -> bool:
    """Whether frame i is shown within one tick of i / rate seconds after the first."""
    ticks = rate * time_base
    over, under = ticks.numerator, ticks.denominator
    return all(abs((at - pts[0]) * over - i * under) <= over for i, at in enumerate(pts))


def sample_indices(times: FrameTimes, *, train_fps: Fraction) -> list[int]:
    """Indices of the frames that make a clip of `train_fps`; some repeat where it has fewer.

    At a constant rate they are FastVideo's, `arange(0, n, rate / train_fps)` cut to integers.
    Otherwise frame k is the one on screen at k / train_fps, with a tick of slack, since containers
    round times to theirs.
    """
    if times.rate is not None:
        step = times.rate / train_fps
        return [int(k * step) for k in range(math.ceil(len(times.pts) / step))]
    return _on_screen(times, train_fps=train_fps)


def _on_screen(times: FrameTimes, *, train_fps: Fraction) -> list[int]:
    ticks_each = 1 / (train_fps * times.time_base)
    end = times.duration_s / times.time_base or ticks_each
    indices: list[int] = []
    index = 0
    while (now := len(indices) * ticks_each) < end - 1:
        while index + 1 < len(times.pts) and times.pts[index + 1] - times.pts[0] <= now + 1:
            index += 1
        indices.append(index)
    return indices or [0]
