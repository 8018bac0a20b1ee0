"""The bucket rule: which tier and shape a picture goes to, in whole numbers only.

The rule is that of PRX's own data: out of range first, then the nearest shape by width / height,
then the largest bucket of that shape for which no side grows more than `max_upscale`: with patches
every tier has one, a table of one's own may have several or few. A picture that is exactly as
large as a bucket goes there in any case, so that nothing is resampled that need not be.
"""

import functools
import itertools
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from diffprep_assets.bucket.shapes import SIDE_STEP, Bucket
from diffprep_resources.errors import SampleReject, SettingError

TOO_SMALL = -1
OUT_OF_RANGE = -2


@dataclass(frozen=True)
class BucketRule:
    """Buckets by tier, then aspect, with the limits that decide between them."""

    buckets: tuple[Bucket, ...]
    min_aspect: Fraction
    max_aspect: Fraction
    max_upscale: Fraction

    @functools.cached_property
    def ladders(self) -> tuple[tuple[int, ...], ...]:
        """Places in `buckets` by aspect, narrowest first; of one aspect the smallest first."""
        by_aspect: dict[Fraction, list[int]] = {}
        for place, bucket in enumerate(self.buckets):
            by_aspect.setdefault(bucket.aspect, []).append(place)
        return tuple(
            tuple(sorted(by_aspect[aspect], key=lambda place: self.buckets[place].width))
            for aspect in sorted(by_aspect)
        )

    @functools.cached_property
    def middles(self) -> tuple[tuple[int, int], ...]:
        """(a, b) for each two neighbouring aspects: width * a > height * b is nearer the wider."""
        aspects = [self.buckets[ladder[0]].aspect for ladder in self.ladders]
        middles = [(low + high) / 2 for low, high in itertools.pairwise(aspects)]
        return tuple((middle.denominator, middle.numerator) for middle in middles)

    def bucket_for(self, width: int, height: int) -> Bucket:
        """The bucket of an upright picture of this size.

        Raises SampleReject aspect_out_of_range, or too_small where every bucket of the nearest
        aspect would enlarge it beyond `max_upscale`.
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
        near = sum(width * below > height * above for below, above in self.middles)
        ladder = [self.buckets[place] for place in self.ladders[near]]
        grow, of = self.max_upscale.as_integer_ratio()
        found = None
        for bucket in ladder:
            if (bucket.width, bucket.height) == (width, height):
                return bucket
            if bucket.width * of <= width * grow and bucket.height * of <= height * grow:
                found = bucket
        if found is not None:
            return found
        raise SampleReject(
            "too_small",
            f"{width}x{height} would grow more than {self.max_upscale} times to fill "
            f"{ladder[0].width}x{ladder[0].height}, the smallest bucket of its aspect",
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
        near = np.zeros(w.shape, np.int64)
        for below, above in self.middles:
            near += (w * below > h * above).astype(np.int64)
        grow, of = self.max_upscale.as_integer_ratio()
        index = np.full(w.shape, TOO_SMALL, np.int64)
        same = np.full(w.shape, TOO_SMALL, np.int64)
        for step in self._steps:
            place, width, height = (values[near].astype(exact) for values in step)
            fits = (place >= 0) & (width * of <= w * grow) & (height * of <= h * grow)
            index = np.where(fits.astype(bool), place, index)
            same = np.where(((width == w) & (height == h)).astype(bool), place, same)
        index = np.where(same == TOO_SMALL, index, same).astype(np.int64)
        return np.where(in_range.astype(bool), index, OUT_OF_RANGE)

    @property
    def _steps(self) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Of each aspect's smallest bucket, its next larger one, ...: place, width and height,
        int64 [aspects] each; place -1 where there is none."""
        steps = []
        for rung in itertools.zip_longest(*self.ladders):
            sizes = [
                (-1, 0, 0)
                if place is None
                else (place, self.buckets[place].width, self.buckets[place].height)
                for place in rung
            ]
            place, width, height = np.array(sizes, np.int64).T
            steps.append((place, width, height))
        return steps


def bucket_rule(
    buckets: tuple[Bucket, ...],
    *,
    min_aspect: Fraction = Fraction(1, 2),
    max_aspect: Fraction = Fraction(2),
    max_upscale: Fraction = Fraction(4, 3),
) -> BucketRule:
    """The rule for these buckets. Raises SettingError where one of them can be no bucket."""
    limits = f"min_aspect {min_aspect} and max_aspect {max_aspect}"
    if not buckets:
        raise SettingError(f"no bucket shape lies between {limits}")
    if max_upscale <= 0:
        raise SettingError(f"max_upscale must be more than 0, got {max_upscale}")
    for bucket in buckets:
        name = f"{bucket.width}x{bucket.height}"
        if (
            min(bucket.width, bucket.height) <= 0
            or bucket.width % SIDE_STEP
            or bucket.height % SIDE_STEP
        ):
            raise SettingError(f"bucket sides must be multiples of {SIDE_STEP}, got {name}")
        if not min_aspect <= bucket.aspect <= max_aspect:
            raise SettingError(f"bucket {name} does not lie between {limits}")
    if len({(bucket.width, bucket.height) for bucket in buckets}) < len(buckets):
        raise SettingError("every bucket must have a size of its own")
    return BucketRule(buckets, min_aspect, max_aspect, max_upscale)
