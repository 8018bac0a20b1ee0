"""What changed, in words that a person can act on."""

import pytest

from diffprep_assets.changes import Difference, changed_settings, difference, plural


@pytest.mark.parametrize(
    ("before", "now", "words"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"image.image_size": 256}, {"image.image_size": 512}, ["image.image_size 256 -> 512"]),
        ({"a": None}, {"a": "x"}, ["a none -> x"]),
        ({}, {"a": True}, ["a none -> true"]),
        ({"a": False}, {}, ["a false -> none"]),
        ({"a": ["x"]}, {"a": ["x", "y"]}, ["a [x] -> [x, y]"]),
        ({"model.vae": "0f"}, {"model.vae": "1e"}, ["model.vae changed"]),
        ({"b": 1, "a": 1}, {"a": 2, "b": 2}, ["a 1 -> 2", "b 1 -> 2"]),
        (
            {"image.buckets": {"tiers": [256], "max_aspect": "2"}},
            {"image.buckets": {"tiers": [512], "max_aspect": "2"}},
            ["image.buckets.tiers [256] -> [512]"],
        ),
        # However the two were written down, equal sections have not changed.
        ({"a": {"x": 1, "y": 2}}, {"a": {"y": 2, "x": 1}}, []),
        ({"a": None}, {"a": {"y": 2, "x": 1}}, ["a none -> {x: 1, y: 2}"]),
    ],
)
def test_settings_are_told_field_by_field(before: dict, now: dict, words: list[str]):
    assert changed_settings(before, now) == words


def test_differences_are_counted_by_kind():
    before = {"kept": 1, "gone": 1, "edited": 1}
    now = {"kept": 1, "edited": 2, "new": 1, "newer": 1}
    assert difference(before, now) == Difference(added=2, removed=1, changed=1)
    assert difference(before, now).words("sample", changed="edited", of="picture") == [
        "2 samples added",
        "1 sample removed",
        "1 picture edited",
    ]


def test_nothing_is_said_of_what_did_not_happen():
    assert Difference().words("file") == []
    assert Difference(changed=1_234).words("caption") == ["1,234 captions changed"]


def test_plurals():
    assert [plural("shard", count) for count in (0, 1, 2)] == ["shards", "shard", "shards"]
