from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diffprep_assets.bucket.geometry import Target, target_for
from diffprep_assets.recipe.schema import Buckets, Image
from diffprep_resources.errors import SampleReject

SIDES = st.integers(1, 20_000)
BUCKETS = Image(buckets=Buckets())


def crop_of(target: Target) -> tuple[int, int, int, int]:
    return target.crop_left, target.crop_top, target.crop_width, target.crop_height


@pytest.mark.parametrize("size", [(640, 480), (16, 3000), (1024, 1024), (1, 1)])
def test_image_size_takes_the_whole_picture_into_a_square(size):
    target = target_for(*size, image=Image(image_size=512))
    assert target == Target(512, 512, 512, 0, 0, *size)


@pytest.mark.parametrize(
    ("size", "crop"),
    [
        ((640, 480), (80, 0, 480, 480)),
        ((480, 641), (0, 80, 480, 480)),
        ((512, 512), (0, 0, 512, 512)),
        ((1, 3000), (0, 1499, 1, 1)),
    ],
)
def test_center_crop_takes_the_middle_square(size, crop):
    target = target_for(*size, image=Image(image_size=512, center_crop=True))
    assert (target.tier, target.width, target.height) == (512, 512, 512)
    assert crop_of(target) == crop


@pytest.mark.parametrize(
    ("size", "target"),
    [
        ((4000, 3000), (1024, 768)),
        ((3000, 4000), (768, 1024)),
        ((500, 500), (1024, 1024)),
        ((1024, 1000), (1024, 1008)),
        ((1024, 999), (1024, 992)),
        ((1024, 1001), (1024, 1008)),
        ((2000, 10), (1024, 16)),
        ((1, 3000), (16, 1024)),
    ],
)
def test_variable_size_scales_the_longest_side_and_rounds_to_16(size, target):
    image = Image(variable_size=True, max_size=1024)
    found = target_for(*size, image=image)
    assert (found.tier, found.width, found.height) == (1024, *target)
    assert crop_of(found) == (0, 0, *size)


@given(SIDES, SIDES, st.integers(1, 64).map(lambda value: value * 16))
def test_variable_size_gives_the_nearest_multiple_of_16_never_0(width, height, max_size):
    found = target_for(width, height, image=Image(variable_size=True, max_size=max_size))
    assert max(found.width, found.height) == max_size
    for side, original in ((found.width, width), (found.height, height)):
        exact = Fraction(original * max_size, max(width, height))
        assert side % 16 == 0
        assert side >= 16
        assert side == 16 or abs(side - exact) <= 8


@pytest.mark.parametrize("size", [(352, 704), (512, 512), (1344, 768), (704, 1408), (1024, 1024)])
def test_a_picture_at_its_buckets_size_is_neither_cropped_nor_scaled(size):
    found = target_for(*size, image=BUCKETS)
    assert (found.width, found.height) == size
    assert crop_of(found) == (0, 0, *size)


def test_a_picture_is_covered_and_cropped_in_the_middle():
    assert target_for(4000, 3000, image=BUCKETS) == Target(
        *(1024, 1152, 896, 71, 0, 3857, 3000),
    )
    assert target_for(3000, 4000, image=BUCKETS) == Target(
        *(1024, 896, 1152, 0, 71, 3000, 3857),
    )


@given(st.integers(704, 20_000), st.fractions(Fraction(1, 2), 2))
def test_the_crop_is_inside_whole_on_one_side_and_of_the_buckets_aspect(width, aspect):
    height = min(max(round(width / aspect), -(-width // 2)), 2 * width)
    found = target_for(width, height, image=BUCKETS)
    left, top, crop_width, crop_height = crop_of(found)
    assert 0 <= left <= width - crop_width
    assert 0 <= top <= height - crop_height
    assert width - crop_width - 2 * left in (0, 1)
    assert height - crop_height - 2 * top in (0, 1)
    assert crop_width == width or crop_height == height
    # One pixel more or less on the cropped side would be no nearer to the bucket's aspect.
    off = abs(crop_width * found.height - crop_height * found.width)
    steps = [found.height] * (crop_height == height) + [found.width] * (crop_width == width)
    assert 2 * off <= max(steps)
    # Little is lost, and nothing grows more than 4/3.
    assert Fraction(crop_width * crop_height, width * height) > Fraction(93, 100) - Fraction(1, 300)
    assert 3 * found.width <= 4 * width
    assert 3 * found.height <= 4 * height


def test_bucket_settings_of_the_recipe_decide():
    wide = Image(buckets=Buckets(tiers=(256,), max_aspect=Fraction(4), max_upscale=Fraction(2)))
    assert target_for(512, 128, image=wide) == Target(256, 512, 128, 0, 0, 512, 128)
    assert target_for(256, 128, image=wide).width > 256
    with pytest.raises(SampleReject, match="too_small"):
        target_for(100, 100, image=wide)
    with pytest.raises(SampleReject, match="allowed are 1/2 to 4"):
        target_for(513, 128, image=wide)
