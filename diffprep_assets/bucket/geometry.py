"""From a picture's upright size to its tier, its output size, and the crop that fills it."""

import functools
from dataclasses import dataclass
from fractions import Fraction

from diffprep_assets.bucket.shapes import SIDE_STEP, table_buckets, tier_buckets
from diffprep_assets.bucket.tiers import BucketRule, bucket_rule
from diffprep_assets.recipe.schema import Buckets, Image


@dataclass(frozen=True, slots=True)
class Target:
    """What a picture becomes: `width` x `height`, made of the crop in its own upright pixels."""

    tier: int
    width: int
    height: int
    crop_left: int
    crop_top: int
    crop_width: int
    crop_height: int


def target_for(width: int, height: int, *, image: Image) -> Target:
    """What an upright picture of this size becomes. Sides are multiples of 16, never 0.

    Raises SampleReject aspect_out_of_range or too_small (buckets only).
    """
    if image.mode == "buckets" and image.buckets is not None:
        return _bucket_target(width, height, buckets=image.buckets)
    if image.mode == "variable_size":
        longest = max(width, height)
        return Target(
            image.max_size,
            _nearest_step(width * image.max_size, longest),
            _nearest_step(height * image.max_size, longest),
            *(0, 0, width, height),
        )
    side = image.image_size
    crop = _cover_crop(width, height, to=(1, 1)) if image.center_crop else (0, 0, width, height)
    return Target(side, side, side, *crop)


def rule_of(buckets: Buckets) -> BucketRule:
    """The bucket rule that a recipe asks for."""
    made = (buckets.shapes, buckets.tiers, buckets.patch)
    return _rule(*made, buckets.min_aspect, buckets.max_aspect, buckets.max_upscale)


@functools.lru_cache(maxsize=16)
def _rule(
    shapes: tuple[tuple[int, int], ...] | None,
    tiers: tuple[int, ...],
    patches: int,
    *limits: Fraction,
) -> BucketRule:
    low, high, grow = limits
    if shapes is None:
        made = tier_buckets(tiers, patches=patches, min_aspect=low, max_aspect=high)
    else:
        made = table_buckets(shapes, tiers=tiers)
    return bucket_rule(made, min_aspect=low, max_aspect=high, max_upscale=grow)


def _bucket_target(width: int, height: int, *, buckets: Buckets) -> Target:
    bucket = rule_of(buckets).bucket_for(width, height)
    crop = _cover_crop(width, height, to=(bucket.width, bucket.height))
    return Target(bucket.tier, bucket.width, bucket.height, *crop)


def _cover_crop(width: int, height: int, *, to: tuple[int, int]) -> tuple[int, int, int, int]:
    """Left, top, width, height of the largest centred crop with the aspect of `to`.

    One side is whole; the other is rounded to the nearest pixel, a half upwards. An odd rest leaves
    one pixel more on the right or at the bottom.
    """
    if width * to[1] > height * to[0]:
        crop_width = _rounded(height * to[0], to[1])
        return (width - crop_width) // 2, 0, crop_width, height
    crop_height = _rounded(width * to[1], to[0])
    return 0, (height - crop_height) // 2, width, crop_height


def _rounded(numerator: int, denominator: int) -> int:
    """The nearest whole number, at least 1; a half goes up."""
    return max(1, (2 * numerator + denominator) // (2 * denominator))


def _nearest_step(numerator: int, denominator: int) -> int:
    """The multiple of 16 nearest to the quotient, at least 16; a half goes up."""
    return SIDE_STEP * _rounded(numerator, denominator * SIDE_STEP)
