import pytest
from hypothesis import given
from hypothesis import strategies as st

from diffprep_resources.errors import SampleReject
from diffprep_resources.sources.names import (
    inside,
    is_hidden,
    name_from_bytes,
    name_to_bytes,
    split_suffix,
)


@given(st.binary(max_size=24))
def test_any_bytes_become_storable_text_and_come_back(raw: bytes) -> None:
    name = name_from_bytes(raw)
    name.encode("utf-8")
    assert name_to_bytes(name) == raw


@given(st.lists(st.sampled_from([b"\\", b"x", b"e9", b"5c", b"\xe9", b"\xff", b"a"]), max_size=8))
def test_names_that_look_like_escapes_come_back_too(parts: list[bytes]) -> None:
    raw = b"".join(parts)
    assert name_to_bytes(name_from_bytes(raw)) == raw


def test_utf8_names_are_kept_verbatim_and_other_bytes_are_shown_in_hex() -> None:
    assert (
        name_from_bytes("caf\u00e9 \U0001f600 (1).jpg".encode()) == "caf\u00e9 \U0001f600 (1).jpg"
    )
    assert name_from_bytes(b"caf\xe9.jpg") == "caf\\xe9.jpg"
    assert name_from_bytes(b"a\\xe9.jpg") == "a\\x5cxe9.jpg"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a/b.c.JPG", ("a/b.c", "jpg")),
        ("a.d/b", ("a.d/b", "")),
        (".hidden", (".hidden", "")),
        ("a/.hidden", ("a/.hidden", "")),
        ("b.", ("b", "")),
    ],
)
def test_only_the_last_suffix_of_the_name_counts(path: str, expected: tuple[str, str]) -> None:
    assert split_suffix(path) == expected


@pytest.mark.parametrize("path", ["", "/etc/x.jpg", "../x.jpg", "a/../../x.jpg", "a\0b.jpg"])
def test_a_path_out_of_the_root_is_refused(path: str) -> None:
    with pytest.raises(SampleReject, match="unsafe_name"):
        inside(b"/root", path)


def test_dots_inside_names_are_no_way_out() -> None:
    assert inside(b"/root", "a..b/c...jpg") == b"/root/a..b/c...jpg"


def test_hidden_folders_hide_what_is_in_them() -> None:
    assert is_hidden("a/.git/b.jpg")
    assert is_hidden("._a.jpg")
    assert not is_hidden("a.b/c.jpg")
