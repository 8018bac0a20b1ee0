import io

import numpy as np
import pytest
from PIL import Image

from diffprep_resources.pictures.bar_chart import BAR, ROW, bar_chart


def bar_lengths(chart: bytes, rows: int) -> list[int]:
    """Pixels of the bars' colour in the middle of each row."""
    pixels = np.array(Image.open(io.BytesIO(chart)).convert("RGB"))
    of_bar = (pixels == BAR).all(axis=2)
    return [int(of_bar[8 + ROW * row + ROW // 2].sum()) for row in range(rows)]


def test_bars_are_as_long_as_their_values():
    chart = bar_chart([("256x256", 200), ("512x256", 100), ("none", 0), ("few", 0.001)], width=600)
    whole, half, none, few = bar_lengths(chart, 4)
    assert whole > 300
    assert abs(half - whole / 2) <= 1
    assert none == 0
    assert 1 <= few <= 2


def test_a_chart_is_a_small_png_of_the_width_asked_for():
    rows = [(f"bucket number {number} of many \u00e9 " * 5, number) for number in range(24)]
    chart = bar_chart(rows, width=640)
    assert Image.open(io.BytesIO(chart)).size[0] == 640
    assert len(chart) < 12_000
    assert chart == bar_chart(rows, width=640)


def test_all_zeros_are_drawn_without_bars():
    assert bar_lengths(bar_chart([("a", 0), ("b", 0)], width=200), 2) == [0, 0]


@pytest.mark.parametrize(("rows", "width"), [([], 300), ([("a", -1)], 300), ([("a", 1)], 100)])
def test_what_cannot_be_drawn_is_refused(rows: list[tuple[str, float]], width: int):
    with pytest.raises(ValueError, match="a bar chart needs"):
        bar_chart(rows, width=width)
