"""Quantities in words."""

import pytest

from diffprep_assets.quantities import bytes_text, duration_text, share_text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (999, "999 bytes"),
        (1000, "1.0 KB"),
        (99_949, "99.9 KB"),
        (99_951, "100 KB"),
        (999_600, "1.0 MB"),
        (3_400_000, "3.4 MB"),
        (123e9, "123 GB"),
        (5e18, "5,000 PB"),
        (-2_000_000, "-2.0 MB"),
    ],
)
def test_bytes_have_two_or_three_digits_and_a_unit(size: float, text: str):
    assert bytes_text(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.2, "under a second"),
        (1.4, "1 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (200, "3 min 20 s"),
        (3599.7, "1 h"),
        (18_600, "5 h 10 min"),
        (86_399, "1 day"),
        (183_600, "2 days 3 h"),
    ],
)
def test_durations_have_at_most_two_units(seconds: float, text: str):
    assert duration_text(seconds) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [(0, "0%"), (1, "100%"), (0.125, "12.5%"), (0.0001, "<0.1%"), (0.99999, ">99.9%")],
)
def test_a_share_that_is_neither_none_nor_all_does_not_look_so(share: float, text: str):
    assert share_text(share) == text
