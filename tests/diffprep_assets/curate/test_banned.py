"""Banned words and patterns."""

import pytest

from diffprep_assets.curate.banned import Banned


def held(caption: str, *entries: str) -> str | None:
    return Banned(entries).found([caption]).get(0)


@pytest.mark.parametrize(
    ("caption", "entry"),
    [
        ("A WATERMARK.", "watermark"),
        ("the Stra\u00dfe", "STRASSE"),
        ("cafe\u0301 noir", "Caf\u00e9"),
        ("a stock\n  Photo!", "stock photo"),
        ("written in C++, badly", "c++"),
        ("an (x-ray)", "x-ray"),
        ("\u4e2d\u56fd", "\u4e2d\u56fd"),
    ],
)
def test_words_are_found_whole_whatever_case_and_accents(caption: str, entry: str) -> None:
    assert held(caption, "other", entry) == entry


@pytest.mark.parametrize(
    ("caption", "entry"),
    [
        ("watermarked", "watermark"),
        ("stock photos", "stock photo"),
        ("an x-rays", "x-ray"),
        ("cafe", "caf\u00e9"),
        ("", "a"),
    ],
)
def test_parts_of_words_are_not_found(caption: str, entry: str) -> None:
    assert held(caption, entry) is None


def test_patterns_are_searched_in_what_no_word_rejected() -> None:
    banned = Banned(["logo", r"/shutter\w+/", r"/^\d+$/"])
    captions = ["a Logo, Shutterstock", "by Shutterstock", "shutter", "123", "12 cats"]
    assert banned.found(captions) == {0: "logo", 1: r"/shutter\w+/", 3: r"/^\d+$/"}
