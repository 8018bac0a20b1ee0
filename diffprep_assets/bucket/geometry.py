"""From a picture's upright size to its tier, its output size, and the crop that fills it."""

from dataclasses import dataclass

from diffprep_assets.bucket.tiers import bucket_rule
from diffprep_assets.recipe.schema import Buckets, Image

_SIDE_STEP = 16


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


def _bucket_target(width: int, height: int, *, buckets: Buckets) -> Target:
    rule = bucket_rule(
        buckets.tiers,
        min_aspect=buckets.min_aspect,
        max_aspect=buckets.max_aspect,
        max_upscale=buckets.max_upscale,
    )
    bucket = rule.bucket_for(width, height)
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
    return _SIDE_STEP * _rounded(numerator, denominator * _SIDE_STEP)
