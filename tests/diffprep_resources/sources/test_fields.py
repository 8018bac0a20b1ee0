import pytest

from diffprep_resources.errors import SampleReject
from diffprep_resources.sources.fields import (
    DEFAULT_CAPTION_KEYS,
    DEFAULT_IMAGE_KEYS,
    field_keys,
    first_caption,
    lookup,
    parse_json,
)


def test_without_settings_the_default_keys_are_tried() -> None:
    keys = field_keys()
    assert (keys.image_keys, keys.caption_keys) == (DEFAULT_IMAGE_KEYS, DEFAULT_CAPTION_KEYS)
    assert not keys.chosen_images
    assert not keys.chosen_captions


def test_a_single_key_is_tried_alone_even_beside_a_list() -> None:
    keys = field_keys(image_key="png", image_keys=["jpg"], caption_keys=["a", "b"])
    assert keys.image_keys == ("png",)
    assert keys.caption_keys == ("a", "b")
    assert keys.chosen_images


def test_default_lists_passed_on_by_the_recipe_do_not_count_as_chosen() -> None:
    keys = field_keys(image_keys=DEFAULT_IMAGE_KEYS, caption_keys=list(DEFAULT_CAPTION_KEYS))
    assert not keys.chosen_images
    assert not keys.chosen_captions


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("meta.caption", "deep"),
        ("meta.n", 3),
        ("meta.missing", None),
        ("dotted.name", "flat"),
        ("list.1", "b"),
        ("list.7", None),
        ("text.inner", "from text"),
        ("plain.inner", None),
        ("missing", None),
    ],
)
def test_dotted_paths_reach_into_nested_values(path: str, expected: object) -> None:
    value = {
        "meta": {"caption": "deep", "n": 3},
        "dotted.name": "flat",
        "list": ["a", "b"],
        "text": '{"inner": "from text"}',
        "plain": "words",
    }
    assert lookup(value, path) == expected


def test_the_first_key_that_leads_to_a_caption_wins() -> None:
    value = {"caption": None, "text": {"not": "a caption"}, "prompt": "yes"}
    assert first_caption(value, DEFAULT_CAPTION_KEYS) == "yes"
    assert first_caption({"prompt": "yes"}, ["json.prompt"]) == "yes"
    assert first_caption({"other": "no"}, DEFAULT_CAPTION_KEYS) is None
    assert first_caption(["a", None], DEFAULT_CAPTION_KEYS) == ["a", None]


@pytest.mark.parametrize(
    ("data", "code"),
    [(b"{", "no_caption"), (b"[" * 100_000, "no_caption"), (b'"\xe9"', "caption_encoding")],
)
def test_json_that_cannot_be_read_is_a_reject(data: bytes, code: str) -> None:
    with pytest.raises(SampleReject) as caught:
        parse_json(data, where="a.json")
    assert caught.value.code == code
    assert "a.json" in caught.value.message


def test_json_with_a_byte_order_mark_is_read() -> None:
    assert parse_json(b'\xef\xbb\xbf{"a": 1}', where="a.json") == {"a": 1}
    assert parse_json('{"a": 1}'.encode("utf-16"), where="a.json") == {"a": 1}
