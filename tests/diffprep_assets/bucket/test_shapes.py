from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diffprep_assets.bucket.shapes import (
    Bucket,
    nearest_tier,
    patch_shapes,
    table_buckets,
    tier_buckets,
)

HALF, TWO = Fraction(1, 2), Fraction(2)
AT_512 = [
    *((352, 704), (384, 672), (384, 640), (416, 608), (448, 576), (480, 544), (512, 512)),
    *((544, 480), (576, 448), (608, 416), (640, 384), (672, 384), (704, 352)),
]
FRACTIONS = st.fractions(min_value=Fraction(1, 20), max_value=1, max_denominator=10**13)


@pytest.mark.parametrize("tier", [512, 1024, 2048, 4096])
def test_every_tier_has_the_thirteen_shapes(tier):
    scale = tier // 512
    found = tier_buckets((tier,), min_aspect=HALF, max_aspect=TWO)
    assert [(bucket.width, bucket.height) for bucket in found] == [
        (scale * width, scale * height) for width, height in AT_512
    ]


def test_shapes_that_leave_the_range_are_dropped():
    assert patch_shapes(Fraction(1), TWO)[0] == (16, 16)
    assert (11, 22) not in patch_shapes(Fraction(11, 21), TWO)
    assert len(patch_shapes(Fraction(1, 4), Fraction(4))) > 13
    # 10 x 10 patches: width 8 leaves a height of 12, width 14 one of 7, and 15 x 6 is too wide.
    assert patch_shapes(HALF, TWO, patches=10) == (
        *((7, 14), (7, 13), (8, 12), (9, 11), (10, 10), (11, 9), (12, 8), (13, 7), (14, 7)),
    )


def test_one_patch_is_the_square():
    assert tier_buckets((512,), min_aspect=HALF, max_aspect=TWO, patches=1) == (
        Bucket(512, 512, 512),
    )


@given(st.integers(1, 32), FRACTIONS, FRACTIONS)
def test_no_two_shapes_of_a_budget_have_one_aspect_and_all_lie_within_the_limits(
    patches, low, high
):
    shapes = patch_shapes(low, 1 / high, patches=patches)
    aspects = [Fraction(*shape) for shape in shapes]
    assert aspects == sorted(set(aspects))
    assert all(low <= aspect <= 1 / high for aspect in aspects)
    assert all(patches**2 < 2 * width * height <= 2 * patches**2 for width, height in shapes)


@pytest.mark.parametrize(
    ("size", "tier"),
    [
        *(((64, 64), 512), ((512, 512), 512), ((640, 640), 512), ((352, 704), 512)),
        *(((1024, 1024), 1024), ((832, 1216), 1024), ((640, 1536), 1024), ((4096, 4096), 2048)),
        # 512 x 1024 is the middle of the two areas, as a ratio: the smaller tier.
        *(((512, 1024), 512), ((528, 1008), 1024)),
    ],
)
def test_a_shape_of_a_table_lies_in_the_tier_of_the_nearest_area(size, tier):
    width, height = size
    assert nearest_tier(width, height, (1024, 512, 2048)) == tier


@pytest.mark.parametrize("patches", [4, 8, 16])
def test_a_table_of_a_tiers_own_shapes_lies_in_that_tier(patches):
    made = tier_buckets((512, 1024), min_aspect=HALF, max_aspect=TWO, patches=patches)
    sizes = [(bucket.width, bucket.height) for bucket in reversed(made)]
    assert table_buckets(sizes, tiers=(512, 1024)) == made
