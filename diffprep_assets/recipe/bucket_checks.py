"""What bucket settings must fulfil together: sides, limits, tiers, and folders of their own."""

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import TypeGuard

from diffprep_assets.bucket.shapes import SIDE_STEP, Bucket, table_buckets
from diffprep_assets.recipe.exact import TIER_STEP, nearest_multiple

_LARGEST = 8192


def check_patches(tiers: Sequence[int], *, patches: int) -> None:
    """Raises ValueError where a tier cannot be cut into so many patches of whole 16 pixels."""
    step = math.lcm(SIDE_STEP * patches, TIER_STEP)
    for tier in tiers:
        if tier % (SIDE_STEP * patches):
            near = nearest_multiple(tier, step=step, largest=max(step, _LARGEST // step * step))
            raise ValueError(
                f"must have tiers that are multiples of {SIDE_STEP} x patch = "
                f"{SIDE_STEP * patches}, so that every bucket's sides are multiples of "
                f"{SIDE_STEP}; for tier {tier} the nearest is {near}, or choose another patch"
            )


def check_table(
    buckets: Sequence[Bucket],
    *,
    used: Sequence[int],
    min_aspect: Fraction,
    max_aspect: Fraction,
) -> None:
    """Raises ValueError where a shape of a table lies outside of the limits, so that no picture
    would ever fit it, or where a tier of `used` has no shape."""
    for bucket in buckets:
        if not min_aspect <= bucket.aspect <= max_aspect:
            key = "min_aspect" if bucket.aspect < min_aspect else "max_aspect"
            raise ValueError(
                f"must have shapes with width / height from min_aspect {min_aspect} to max_aspect "
                f"{max_aspect}; {bucket.width}x{bucket.height} has {bucket.aspect}: set {key} to "
                f"that, or leave the shape out"
            )
    tiers = {bucket.tier for bucket in buckets}
    for tier in used:
        if tier not in tiers:
            raise ValueError(
                f"must name tiers that shapes lie in, each shape in the tier whose square has "
                f"the nearest area; none lies in {tier}: leave that tier out"
            )


def same_folders(shapes: object, tiers: object) -> Iterator[str]:
    """What is wrong with a table for MDS, whose folders are named by tier and aspect only; nothing
    of values that are no shapes or tiers."""
    if not (_are_numbers(tiers) and isinstance(shapes, list | tuple)):
        return
    sizes = [(shape[0], shape[1]) for shape in shapes if _are_numbers(shape) and len(shape) == 2]
    named: dict[tuple[int, str], Bucket] = {}
    for bucket in table_buckets(sizes, tiers=tiers):
        aspect = f"{bucket.width / bucket.height:.3f}"
        other = named.setdefault((bucket.tier, aspect), bucket)
        if other is not bucket:
            yield (
                f"holds {other.width}x{other.height} and {bucket.width}x{bucket.height}, both of "
                f"aspect {aspect} in tier {bucket.tier}, and an MDS folder holds pictures of one "
                f"size; leave one out, or give them tiers of their own"
            )


def _are_numbers(values: object) -> TypeGuard[Sequence[int]]:
    return (
        isinstance(values, list | tuple)
        and bool(values)
        and all(isinstance(v, int) and not isinstance(v, bool) and v > 0 for v in values)
    )
