"""Patterns searched in a process of their own."""

import time

import pytest

from diffprep_assets.curate.pattern_search import found_patterns
from diffprep_resources.errors import SettingError


def test_the_first_pattern_that_a_text_holds_is_told() -> None:
    texts = ["x Y", "\u00c9t\u00e9 \U0001f600", "", "y"]
    found = found_patterns(texts, ["y", "\u00e9t\u00e9|x"])
    assert found == {0: "y", 1: "\u00e9t\u00e9|x", 3: "y"}


def test_a_pattern_that_would_take_for_ever_is_ended_and_named() -> None:
    start = time.monotonic()
    with pytest.raises(SettingError, match=r"banned: /\(a\+\)\+\$b/ took longer than 0.4 s over 2"):
        found_patterns(["a" * 60, "b"], ["never", "(a+)+$b", "b"], limit_s=0.4)
    assert time.monotonic() - start < 10
