"""The output sizes of a dataset: on a budget of patches for each tier, or a table of one's own.

Whole numbers and fractions only. Aspects are width / height.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

SIDE_STEP = 16


@dataclass(frozen=True, slots=True)
class Bucket:
    """One output size in pixels."""

    tier: int
    width: int
    height: int

    @property
    def aspect(self) -> Fraction:
        return Fraction(self.width, self.height)


def patch_shapes(
    min_aspect: Fraction, max_aspect: Fraction, *, patches: int = 16
) -> tuple[tuple[int, int], ...]:
    """(width, height) in patches of every shape, narrowest first; 13 for 16 patches and 1/2 to 2.

    For each width with a budget of patches x patches: the height that the budget leaves, and the
    same turned; those whose rounded height leads out of the limits are dropped. No two have one
    aspect: each fills more than half of the budget.
    """
    budget = patches * patches
    shapes = set()
    for width in range(1, budget + 1):
        if min_aspect * budget <= width * width <= max_aspect * budget:
            height = budget // width
            shapes.update(((width, height), (height, width)))
    kept = [shape for shape in shapes if min_aspect <= Fraction(*shape) <= max_aspect]
    return tuple(sorted(kept, key=lambda shape: Fraction(*shape)))


def tier_buckets(
    tiers: Sequence[int], *, min_aspect: Fraction, max_aspect: Fraction, patches: int = 16
) -> tuple[Bucket, ...]:
    """The same shapes for every tier, in patches of tier / patches pixels; by tier, then aspect."""
    shapes = patch_shapes(min_aspect, max_aspect, patches=patches)
    return tuple(
        Bucket(tier, width * tier // patches, height * tier // patches)
        for tier in sorted(tiers)
        for width, height in shapes
    )


def table_buckets(shapes: Sequence[tuple[int, int]], *, tiers: Sequence[int]) -> tuple[Bucket, ...]:
    """A table of sizes in pixels, each in the tier that is nearest; by tier, then aspect."""
    buckets = [
        Bucket(nearest_tier(width, height, tiers), width, height) for width, height in shapes
    ]
    return tuple(sorted(buckets, key=lambda bucket: (bucket.tier, bucket.aspect, bucket.width)))


def nearest_tier(width: int, height: int, tiers: Sequence[int]) -> int:
    """The tier whose square has the area nearest to a shape's, as a ratio; a tie to the smaller.

    Two neighbouring tiers a < b part where the area is a x b: between 512 and 1024 at 724 x 724.
    """
    ordered = sorted(tiers)
    above = sum(
        width * height > smaller * larger for smaller, larger in itertools.pairwise(ordered)
    )
    return ordered[above]
