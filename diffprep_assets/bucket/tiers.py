"""The bucket rule: which tier and shape a picture goes to, in whole numbers only.

Every tier holds the same shapes, on a budget of 16x16 patches of tier/16 pixels. The rule is that
of PRX's own data: out of range first, then the nearest shape by width / height, then the largest
tier for which no side grows more than `max_upscale`. Aspects are width / height.
"""

import functools
import itertools
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from diffprep_resources.errors import SampleReject, SettingError

_PATCHES = 16
_BUDGET = _PATCHES * _PATCHES
TIER_STEP = _PATCHES * 16
"""A tier is a multiple of this, so that every side is a multiple of 16."""

TOO_SMALL = -1
OUT_OF_RANGE = -2


@dataclass(frozen=True, slots=True)
class Bucket:
    """One output size in pixels."""

    tier: int
    width: int
    height: int


def patch_shapes(min_aspect: Fraction, max_aspect: Fraction) -> tuple[tuple[int, int], ...]:
    """(width, height) in patches of every shape, narrowest first; 13 for 1/2 to 2."""
    shapes = set()
    for width in range(1, _BUDGET + 1):
        if min_aspect * _BUDGET <= width * width <= max_aspect * _BUDGET:
            height = _BUDGET // width
            shapes.update(((width, height), (height, width)))
    kept = [shape for shape in shapes if min_aspect <= Fraction(*shape) <= max_aspect]
    return tuple(sorted(kept, key=lambda shape: Fraction(*shape)))


@dataclass(frozen=True, slots=True)
class BucketRule:
    """Tiers and shapes with the limits that decide between them; `shapes` narrowest first."""

    tiers: tuple[int, ...]
    shapes: tuple[tuple[int, int], ...]
    min_aspect: Fraction
    max_aspect: Fraction
    max_upscale: Fraction

    @property
    def buckets(self) -> tuple[Bucket, ...]:
        """Every bucket, by tier, then shape. `indices_for` counts in this order."""
        return tuple(
            Bucket(tier, width * tier // _PATCHES, height * tier // _PATCHES)
            for tier in self.tiers
            for width, height in self.shapes
        )

    @property
    def middles(self) -> tuple[tuple[int, int], ...]:
        """(a, b) for each two neighbouring shapes: width * a > height * b is nearer the wider."""
        return tuple(
            (2 * h * next_h, w * next_h + next_w * h)
            for (w, h), (next_w, next_h) in itertools.pairwise(self.shapes)
        )

    def bucket_for(self, width: int, height: int) -> Bucket:
        """The bucket of an upright picture of this size.

        Raises SampleReject aspect_out_of_range, or too_small where every tier would enlarge it
        beyond `max_upscale`.
        """
        low, high = self.min_aspect, self.max_aspect
        if not (
            width * low.denominator >= height * low.numerator
            and width * high.denominator <= height * high.numerator
        ):
            raise SampleReject(
                "aspect_out_of_range",
                f"{width}x{height} has width / height {width / height:.4g}; allowed are "
                f"{low} to {high}",
            )
        # A tie goes to the narrower shape.
        shape = self.shapes[sum(width * below > height * above for below, above in self.middles)]
        grow, of = self.max_upscale.as_integer_ratio()
        for tier in reversed(self.tiers):
            sides = shape[0] * tier // _PATCHES, shape[1] * tier // _PATCHES
            if sides[0] * of <= width * grow and sides[1] * of <= height * grow:
                return Bucket(tier, *sides)
        raise SampleReject(
            "too_small",
            f"{width}x{height} would grow more than {self.max_upscale} times to fill "
            f"{shape[0] * self.tiers[0] // _PATCHES}x{shape[1] * self.tiers[0] // _PATCHES}, "
            f"its bucket in the smallest tier",
        )

    def indices_for(self, widths: np.ndarray, heights: np.ndarray) -> np.ndarray:
        """int64 per picture: its place in `buckets`, TOO_SMALL or OUT_OF_RANGE. As `bucket_for`."""
        limits = (self.min_aspect, self.max_aspect, self.max_upscale)
        small = all(max(limit.as_integer_ratio()) < 1 << 30 for limit in limits)
        # Python's own integers where the limits have so many digits that int64 would overflow.
        exact = np.int64 if small else object
        w, h = widths.astype(exact), heights.astype(exact)
        in_range = (w * self.min_aspect.denominator >= h * self.min_aspect.numerator) & (
            w * self.max_aspect.denominator <= h * self.max_aspect.numerator
        )
        shape = np.zeros(w.shape, np.int64)
        for below, above in self.middles:
            shape += (w * below > h * above).astype(np.int64)
        grow, of = self.max_upscale.as_integer_ratio()
        sides = np.array(self.shapes, np.int64)[shape].astype(exact)
        index = np.full(w.shape, TOO_SMALL, np.int64)
        for place, tier in enumerate(self.tiers):
            patch = tier // _PATCHES
            fits = (sides[..., 0] * (patch * of) <= w * grow) & (
                sides[..., 1] * (patch * of) <= h * grow
            )
            index = np.where(fits.astype(bool), place * len(self.shapes) + shape, index)
        return np.where(in_range.astype(bool), index, OUT_OF_RANGE)


@functools.lru_cache(maxsize=16)
def bucket_rule(
    tiers: tuple[int, ...],
    *,
    min_aspect: Fraction = Fraction(1, 2),
    max_aspect: Fraction = Fraction(2),
    max_upscale: Fraction = Fraction(4, 3),
) -> BucketRule:
    """The rule for these settings. Raises SettingError where they leave no bucket."""
    wrong = [tier for tier in tiers if tier <= 0 or tier % TIER_STEP]
    if wrong or not tiers:
        raise SettingError(f"tiers must be multiples of {TIER_STEP}, got {list(tiers)}")
    if max_upscale <= 0:
        raise SettingError(f"max_upscale must be more than 0, got {max_upscale}")
    shapes = patch_shapes(min_aspect, max_aspect)
    if not shapes:
        raise SettingError(
            f"no bucket shape lies between min_aspect {min_aspect} and max_aspect {max_aspect}"
        )
    return BucketRule(tuple(sorted(tiers)), shapes, min_aspect, max_aspect, max_upscale)
