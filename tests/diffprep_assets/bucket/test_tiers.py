import functools
import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diffprep_assets.bucket.geometry import target_for
from diffprep_assets.bucket.shapes import Bucket, table_buckets, tier_buckets
from diffprep_assets.bucket.tiers import OUT_OF_RANGE, TOO_SMALL, BucketRule, bucket_rule
from diffprep_assets.recipe.schema import Buckets, Image
from diffprep_resources.errors import SampleReject, SettingError

HALF, TWO, THIRDS = Fraction(1, 2), Fraction(2), Fraction(4, 3)
AT_512 = [
    *((352, 704), (384, 672), (384, 640), (416, 608), (448, 576), (480, 544), (512, 512)),
    *((544, 480), (576, 448), (608, 416), (640, 384), (672, 384), (704, 352)),
]
TABLE = ((512, 512), (640, 640), (1024, 1024), (832, 1216), (1216, 832), (416, 608), (1024, 512))
SIDES = st.integers(1, 65_535)
FRACTIONS = st.fractions(min_value=Fraction(1, 20), max_value=1, max_denominator=10**13)


def tiered(*tiers: int, low=HALF, high=TWO, grow=THIRDS, patches=16) -> BucketRule:
    made = tier_buckets(tiers, min_aspect=low, max_aspect=high, patches=patches)
    return bucket_rule(made, min_aspect=low, max_aspect=high, max_upscale=grow)


RULE = tiered(512, 1024)


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
    rule = tiered(512, grow=Fraction(upscale))
    assert rule.bucket_for(least, least) == Bucket(512, 512, 512)
    with pytest.raises(SampleReject, match="too_small"):
        rule.bucket_for(least - 1, least - 1)


def test_tiers_may_come_in_any_order():
    assert tiered(1024, 512).bucket_for(768, 768).tier == 1024


def test_a_picture_of_exactly_a_buckets_size_stays_where_a_larger_bucket_could_be_filled():
    rule = tiered(512, 768, 1024, grow=TWO)
    assert rule.bucket_for(512, 512) == Bucket(512, 512, 512)
    assert rule.bucket_for(512, 513) == Bucket(1024, 1024, 1024)


def test_a_table_has_the_nearest_aspect_decide_then_the_largest_size():
    rule = bucket_rule(table_buckets(TABLE, tiers=(512, 1024)))
    assert rule.bucket_for(640, 640) == Bucket(512, 640, 640)
    assert rule.bucket_for(767, 767) == Bucket(512, 640, 640)
    assert rule.bucket_for(768, 768) == Bucket(1024, 1024, 1024)
    assert rule.bucket_for(512, 512) == Bucket(512, 512, 512)
    assert rule.bucket_for(624, 912) == Bucket(1024, 832, 1216)
    assert rule.bucket_for(623, 912) == Bucket(512, 416, 608)
    assert rule.bucket_for(2000, 1000) == Bucket(512, 1024, 512)
    with pytest.raises(SampleReject, match="fill 1216x832, the smallest bucket of its aspect"):
        rule.bucket_for(800, 547)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ([(500, 512)], "multiples of 16, got 500x512"),
        ([(0, 512)], "multiples of 16, got 0x512"),
        ([(1536, 640)], "1536x640 does not lie between min_aspect 1/2 and max_aspect 2"),
        ([(512, 512), (512, 512)], "a size of its own"),
        ([], "no bucket shape lies between"),
    ],
)
def test_buckets_that_cannot_be_are_refused(sizes, message):
    with pytest.raises(SettingError, match=message):
        bucket_rule(tuple(Bucket(512, *size) for size in sizes))


@given(SIDES, SIDES)
def test_the_scalar_rule_is_the_written_one(width, height):
    assert index_by_scalar(RULE, width, height) == index_by_the_written_rule(width, height)


@given(SIDES, SIDES, FRACTIONS, FRACTIONS, st.fractions(Fraction(1, 2), 3, max_denominator=10**9))
def test_the_vectorised_rule_agrees_for_any_limits(width, height, low, high, grow):
    rule = tiered(256, 768, low=low, high=1 / high, grow=grow)
    found = rule.indices_for(np.array([width]), np.array([height]))
    assert found.tolist() == [index_by_scalar(rule, width, height)]


def random_sizes(rule: BucketRule, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Sizes near the limits of the rule, where rounding would show, and every bucket's own."""
    rng = np.random.default_rng(0)
    widths = rng.integers(1, 6 * max(bucket.width for bucket in rule.buckets) // 5, count)
    near = (widths * rng.uniform(0.45, 2.2, count)).astype(np.int64)
    heights = np.where(rng.random(count) < 0.9, np.maximum(near, 1), rng.integers(1, 3000, count))
    # Half of them lie around a bucket's size or that over the most it may grow.
    sizes = np.array([(bucket.width, bucket.height) for bucket in rule.buckets])
    edges = np.concatenate([sizes, np.ceil(sizes / float(rule.max_upscale)).astype(np.int64)])
    edges = edges[rng.integers(0, len(edges), count // 2)] + rng.integers(-2, 3, (count // 2, 2))
    own = np.concatenate([sizes, edges])
    widths[: len(own)], heights[: len(own)] = own.T
    return np.maximum(widths, 1), np.maximum(heights, 1)


RULES = {
    "four tiers": tiered(512, 1024, 2048, 4096),
    "eight patches": tiered(512, 1024, patches=8),
    "wide": tiered(512, low=Fraction(1, 4), high=Fraction(4), grow=Fraction(3, 2)),
    "a table": bucket_rule(table_buckets(TABLE, tiers=(512, 1024))),
    "grows to another tier": tiered(512, 768, 1024, grow=TWO),
}


def assert_promises(rule: BucketRule, count: int, scalar: int) -> None:
    """What the rule promises, of `count` sizes; of the first `scalar` also in its other form."""
    w, h = random_sizes(rule, count)
    found = rule.indices_for(w, h)
    assert set(found.tolist()) == {OUT_OF_RANGE, TOO_SMALL, *range(len(rule.buckets))}
    sizes = np.array([(one.tier, one.width, one.height) for one in rule.buckets])
    aspects = sizes[:, 1] / sizes[:, 2]
    kept = found >= 0
    w_kept, h_kept, (tier, bw, bh) = w[kept], h[kept], sizes[found[kept]].T
    assert set(tier.tolist()) == set(sizes[:, 0].tolist())
    # No side grows more than the limit; where a larger bucket of the aspect is, one would.
    grow = float(rule.max_upscale)
    assert (bw <= w_kept * grow + 1e-6).all()
    assert (bh <= h_kept * grow + 1e-6).all()
    same = (w_kept == bw) & (h_kept == bh)
    for _, width, height in sizes.tolist():
        larger = (width * bh == height * bw) & (width > bw) & ~same
        assert ((width > w_kept * grow - 1e-6) | (height > h_kept * grow - 1e-6))[larger].all()
    # No bucket is nearer by its aspect, and every bucket's own size stays.
    off = np.abs(w_kept / h_kept - aspects[found[kept]])
    nearest = np.min([np.abs(w_kept / h_kept - aspect) for aspect in aspects], axis=0)
    assert (off <= nearest + 1e-9).all()
    own = found[: len(sizes)]
    assert own.tolist() == list(range(len(sizes)))
    for width, height, index in zip(
        w[:scalar].tolist(), h[:scalar].tolist(), found[:scalar].tolist(), strict=True
    ):
        if index_by_scalar(rule, width, height) != index:
            pytest.fail(f"{width}x{height}: not {index} in the scalar form")


@pytest.mark.parametrize("name", RULES)
def test_the_rule_keeps_its_promises_on_many_sizes(name):
    assert_promises(RULES[name], 60_000, 4_000)


@pytest.mark.long
@pytest.mark.parametrize("name", RULES)
def test_the_rule_keeps_its_promises_on_a_million_sizes(name):
    assert_promises(RULES[name], 1_000_000, 1_000_000)


@pytest.mark.parametrize(
    "buckets",
    [
        Buckets(tiers=(512, 1024, 2048, 4096)),
        Buckets(tiers=(512, 1024), patch=8, max_upscale=TWO),
        Buckets(shapes=TABLE),
    ],
)
def test_a_picture_of_exactly_a_buckets_size_is_neither_cropped_nor_scaled(buckets):
    low, high = buckets.min_aspect, buckets.max_aspect
    made = tier_buckets(buckets.tiers, min_aspect=low, max_aspect=high, patches=buckets.patch)
    for bucket in made if buckets.shapes is None else table_buckets(TABLE, tiers=buckets.tiers):
        found = target_for(bucket.width, bucket.height, image=Image(buckets=buckets))
        assert Bucket(found.tier, found.width, found.height) == bucket
        assert (found.crop_left, found.crop_top) == (0, 0)
        assert (found.crop_width, found.crop_height) == (bucket.width, bucket.height)


def test_exact_ties_and_limits_agree_in_the_vectorised_rule():
    sizes = [(1000, 2000), (1000, 2001), (383, 384), (384, 384), (768, 768), (767, 768)]
    for (w, h), (next_w, next_h) in itertools.pairwise(AT_512):
        middle = (Fraction(w, h) + Fraction(next_w, next_h)) / 2
        sizes += [(middle.numerator * 40 + off, middle.denominator * 40) for off in (-1, 0, 1)]
    widths, heights = (np.array(side) for side in zip(*sizes, strict=True))
    expected = [index_by_the_written_rule(*size) for size in sizes]
    assert RULE.indices_for(widths, heights).tolist() == expected
