from fractions import Fraction

import pytest

from diffprep_assets.recipe.exact import nearest_multiple, read_fraction, share_number


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("4/3", Fraction(4, 3)),
        (" 4 / 3 ", Fraction(4, 3)),
        (1.5, Fraction(3, 2)),
        (0.1, Fraction(1, 10)),
        ("1.25", Fraction(5, 4)),
        ("1.5/2", Fraction(3, 4)),
        (2, Fraction(2)),
        (Fraction(7, 9), Fraction(7, 9)),
    ],
)
def test_fractions_and_decimals_are_exact(value: object, expected: Fraction):
    assert read_fraction(value) == expected


@pytest.mark.parametrize(
    "value",
    [
        "",
        "x",
        "4/",
        "/3",
        "1/0",
        "1e999999999",
        "-1/2",
        True,
        None,
        [1],
        float("nan"),
        float("inf"),
    ],
)
def test_anything_else_is_refused(value: object):
    with pytest.raises(ValueError, match="must be a number or a fraction like 4/3"):
        read_fraction(value)


@pytest.mark.parametrize(
    ("value", "nearest"),
    [(500, 496), (504, 512), (0, 16), (-5, 16), (1, 16), (16, 16), (10**9, 16384), (1024, 1024)],
)
def test_the_nearest_multiple_of_sixteen(value: int, nearest: int):
    assert nearest_multiple(value, step=16, largest=16384) == nearest


def test_a_share_is_a_number_where_that_is_exact():
    assert share_number(Fraction(4, 5)) == 0.8
    assert share_number(Fraction(1, 3)) == "1/3"
    assert isinstance(share_number(Fraction(1)), float)
