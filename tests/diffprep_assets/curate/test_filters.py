"""Rules on sizes and captions, at their edges."""

from fractions import Fraction
from typing import Any

import numpy as np

from diffprep_assets.curate.filters import Rows, RuleFilters
from diffprep_assets.recipe.curation import Filters


def rejected(sizes: list[tuple[int, int]], captions: list[str] | None = None, **rules: Any) -> dict:
    widths, heights = (np.array(sides, np.int64) for sides in zip(*sizes, strict=True))
    rows = Rows(widths, heights, captions or ["words"] * len(sizes))
    return RuleFilters(Filters(**rules)).rejections(rows)


def test_the_shorter_side_may_be_as_short_as_asked() -> None:
    found = rejected([(256, 900), (255, 900), (900, 255)], min_side=256)
    assert list(found) == [1, 2]
    assert found[1].code == "filter_min_side"
    assert found[1].rule == "filters.min_side"
    assert found[1].message == "shorter side 255 pixels, at least 256 are asked for"


def test_the_aspect_may_be_as_long_as_asked_in_either_direction_exactly() -> None:
    third = Fraction(1, 3)
    sizes = [(400, 300), (300, 400), (401, 300), (300, 401), (4_000_000_001, 3_000_000_000)]
    assert list(rejected(sizes, max_aspect=1 + third)) == [2, 3, 4]
    assert list(rejected([(100, 100), (101, 100)], max_aspect=Fraction(1))) == [1]


def test_a_captions_length_counts_characters_and_either_end_may_be_open() -> None:
    captions = ["", "ab", "\u00e9\u4e2d\U0001f600", "abcd"]
    sizes = [(64, 64)] * 4
    assert list(rejected(sizes, captions, caption_length=(2, 3))) == [0, 3]
    assert list(rejected(sizes, captions, caption_length=(None, 3))) == [3]
    found = rejected(sizes, captions, caption_length=(1, None))
    assert [why.message for why in found.values()] == [
        "caption of 0 characters, at least 1 are asked for"
    ]


def test_the_first_rule_that_rejects_a_sample_is_its_own() -> None:
    found = rejected(
        [(10, 90), (100, 90), (100, 20), (90, 90)],
        ["bad", "bad", "", "fine"],
        min_side=16,
        max_aspect=Fraction(2),
        caption_length=(1, None),
        banned=("bad",),
    )
    codes = {place: why.code for place, why in found.items()}
    assert codes == {0: "filter_min_side", 2: "filter_max_aspect", 1: "filter_banned"}


def test_without_rules_nothing_is_rejected() -> None:
    assert rejected([(1, 999)]) == {}
