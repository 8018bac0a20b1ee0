import functools
import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diffprep_assets.bucket.tiers import (
    OUT_OF_RANGE,
    TOO_SMALL,
    Bucket,
    BucketRule,
    bucket_rule,
    patch_shapes,
)
from diffprep_resources.errors import SampleReject, SettingError

HALF, TWO = Fraction(1, 2), Fraction(2)
RULE = bucket_rule((512, 1024))
AT_512 = [
    *((352, 704), (384, 672), (384, 640), (416, 608), (448, 576), (480, 544), (512, 512)),
    *((544, 480), (576, 448), (608, 416), (640, 384), (672, 384), (704, 352)),
]
SIDES = st.integers(1, 65_535)
FRACTIONS = st.fractions(min_value=Fraction(1, 20), max_value=1, max_denominator=10**13)


def index_by_scalar(rule: BucketRule, width: int, height: int) -> int:
    try:
        return places_in(rule)[rule.bucket_for(width, height)]
    except SampleReject as reject:
        return {"too_small": TOO_SMALL, "aspect_out_of_range": OUT_OF_RANGE}[reject.code]


@functools.cache
def places_in(rule: BucketRule) -> dict[Bucket, int]:
    return {bucket: place for place, bucket in enumerate(rule.buckets)}


def index_by_the_written_rule(width: int, height: int) -> int:
    """FORMATS 5 read word by word, for tiers 512 and 1024, in this file's own list of shapes."""
    if not (height <= 2 * width and width <= 2 * height):
        return OUT_OF_RANGE
    distances = [abs(Fraction(width, height) - Fraction(w, h)) for w, h in AT_512]
    shape = distances.index(min(distances))
    found = TOO_SMALL
    for place, scale in enumerate((1, 2)):
        bucket_width, bucket_height = AT_512[shape][0] * scale, AT_512[shape][1] * scale
        if 3 * bucket_width <= 4 * width and 3 * bucket_height <= 4 * height:
            found = place * 13 + shape
    return found


@pytest.mark.parametrize("tier", [512, 1024, 2048, 4096])
def test_every_tier_has_the_thirteen_shapes(tier):
    scale = tier // 512
    found = [(bucket.width, bucket.height) for bucket in bucket_rule((tier,)).buckets]
    assert found == [(scale * width, scale * height) for width, height in AT_512]


@given(FRACTIONS, FRACTIONS, st.sampled_from([256, 512, 768, 1024]))
def test_every_side_is_a_multiple_of_16_and_every_shape_within_the_limits(low, high, tier):
    rule = bucket_rule((tier,), min_aspect=low, max_aspect=1 / high)
    assert rule.shapes
    for bucket in rule.buckets:
        assert bucket.width % 16 == 0
        assert bucket.height % 16 == 0
        assert low <= Fraction(bucket.width, bucket.height) <= 1 / high


def test_shapes_that_leave_the_range_are_dropped():
    assert patch_shapes(Fraction(1), TWO)[0] == (16, 16)
    assert (11, 22) not in patch_shapes(Fraction(11, 21), TWO)
    assert len(patch_shapes(Fraction(1, 4), Fraction(4))) > 13


def test_out_of_range_is_tested_first_in_the_pictures_own_integers():
    assert RULE.bucket_for(1000, 2000) == Bucket(1024, 704, 1408)
    for size in ((1000, 2001), (2001, 1000), (1, 3), (2000, 10)):
        with pytest.raises(SampleReject, match="aspect_out_of_range"):
            RULE.bucket_for(*size)


def test_a_tie_between_two_aspects_goes_to_the_smaller():
    narrow, wide = Fraction(480, 544), Fraction(1)
    middle = (narrow + wide) / 2
    width, height = middle.numerator * 80, middle.denominator * 80
    assert RULE.bucket_for(width, height) == Bucket(1024, 960, 1088)
    assert RULE.bucket_for(width + 1, height) == Bucket(1024, 1024, 1024)


def test_no_side_grows_more_than_four_thirds():
    assert RULE.bucket_for(768, 768).tier == 1024
    assert RULE.bucket_for(767, 768).tier == 512
    assert RULE.bucket_for(384, 384).tier == 512
    with pytest.raises(SampleReject, match="too_small"):
        RULE.bucket_for(383, 384)


@pytest.mark.parametrize(("upscale", "least"), [(1, 512), (Fraction(3, 2), 342), (2, 256)])
def test_max_upscale_decides_the_smallest_side(upscale, least):
    rule = bucket_rule((512,), max_upscale=Fraction(upscale))
    assert rule.bucket_for(least, least) == Bucket(512, 512, 512)
    with pytest.raises(SampleReject, match="too_small"):
        rule.bucket_for(least - 1, least - 1)


def test_tiers_may_come_in_any_order():
    assert bucket_rule((1024, 512)).bucket_for(768, 768).tier == 1024


@pytest.mark.parametrize("tiers", [(500,), (512, 0), (), (-256,), (640,)])
def test_a_tier_that_is_no_multiple_of_256_is_refused(tiers):
    with pytest.raises(SettingError, match="multiples of 256"):
        bucket_rule(tiers)


def test_limits_without_a_shape_between_them_are_refused():
    with pytest.raises(SettingError, match="no bucket shape"):
        bucket_rule((512,), min_aspect=Fraction(11, 10), max_aspect=Fraction(112, 100))


@given(SIDES, SIDES)
def test_the_scalar_rule_is_the_written_one(width, height):
    assert index_by_scalar(RULE, width, height) == index_by_the_written_rule(width, height)


@given(SIDES, SIDES, FRACTIONS, FRACTIONS, st.fractions(Fraction(1, 2), 3, max_denominator=10**9))
def test_the_vectorised_rule_agrees_for_any_limits(width, height, low, high, grow):
    rule = bucket_rule((256, 768), min_aspect=low, max_aspect=1 / high, max_upscale=grow)
    found = rule.indices_for(np.array([width]), np.array([height]))
    assert found.tolist() == [index_by_scalar(rule, width, height)]


def random_sizes(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Sizes near the limits of the rule, where rounding would show."""
    rng = np.random.default_rng(0)
    widths = rng.integers(1, 3000, count)
    near = (widths * rng.uniform(0.45, 2.2, count)).astype(np.int64)
    heights = np.where(rng.random(count) < 0.9, np.maximum(near, 1), rng.integers(1, 3000, count))
    return widths, heights


def assert_agreement(count: int) -> None:
    widths, heights = random_sizes(count)
    found = RULE.indices_for(widths, heights)
    assert set(found.tolist()) == {OUT_OF_RANGE, TOO_SMALL, *range(26)}
    for width, height, index in zip(widths.tolist(), heights.tolist(), found.tolist(), strict=True):
        if index_by_scalar(RULE, width, height) != index:
            pytest.fail(f"{width}x{height}: {index_by_scalar(RULE, width, height)} is not {index}")


def test_the_vectorised_rule_agrees_on_many_sizes():
    assert_agreement(100_000)


@pytest.mark.long
def test_the_vectorised_rule_agrees_on_a_million_sizes():
    assert_agreement(1_000_000)


def test_exact_ties_and_limits_agree_in_the_vectorised_rule():
    sizes = [(1000, 2000), (1000, 2001), (383, 384), (384, 384), (768, 768), (767, 768)]
    for (w, h), (next_w, next_h) in itertools.pairwise(AT_512):
        middle = (Fraction(w, h) + Fraction(next_w, next_h)) / 2
        sizes += [(middle.numerator * 40 + off, middle.denominator * 40) for off in (-1, 0, 1)]
    widths, heights = (np.array(side) for side in zip(*sizes, strict=True))
    expected = [index_by_the_written_rule(*size) for size in sizes]
    assert RULE.indices_for(widths, heights).tolist() == expected
