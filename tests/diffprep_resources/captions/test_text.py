import itertools
import json
import math
import os
import subprocess
import sys

import numpy as np
import pytest

from diffprep_resources.captions.text import CaptionTexts, Choose, Lines, caption_texts
from diffprep_resources.errors import SampleReject


def take(
    value: object,
    *,
    choose: Choose = "first",
    lines: Lines = "whole",
    allow_empty: bool = False,
    seed_key: str = "0:a.jpg",
) -> CaptionTexts:
    return caption_texts(
        value, choose=choose, lines=lines, allow_empty=allow_empty, seed_key=seed_key
    )


def code_of(value: object, *, lines: Lines = "whole", allow_empty: bool = False) -> str:
    with pytest.raises(SampleReject) as caught:
        take(value, lines=lines, allow_empty=allow_empty)
    return caught.value.code


def test_bom_crlf_trailing_newlines_and_nul_are_cleaned_and_the_rest_is_verbatim():
    data = b"\xef\xbb\xbf  A cat,\r\n\ton  a\x00 mat. \r\n\r\n"
    assert take(data) == CaptionTexts(("  A cat,\n\ton  a mat. ",), ())


def test_text_from_json_is_cleaned_alike():
    assert take("\ufeffred\r\nblue\rgreen\0\n").texts == ("red\nblue\ngreen",)
    assert take("a \u2028 b\x0b \xa0 c\u0301").texts == ("a \u2028 b\x0b \xa0 c\u0301",)


@pytest.mark.parametrize(
    "value", [None, [], [None, None], math.nan, [math.nan], math.inf, {}, {"a": 1}, [{}]]
)
def test_a_missing_caption_is_no_caption_even_where_empty_is_allowed(value):
    assert code_of(value) == "no_caption"
    assert code_of(value, allow_empty=True) == "no_caption"


@pytest.mark.parametrize("value", ["", b"", " \n ", b"\xef\xbb\xbf\r\n", ["", None], "\0"])
@pytest.mark.parametrize("lines", ["whole", "each"])
def test_an_empty_caption_is_kept_only_when_allowed(value, lines):
    assert code_of(value, lines=lines) == "no_caption"
    assert take(value, lines=lines, allow_empty=True).texts == ("",)


def test_null_and_empty_entries_of_a_list_are_passed_over():
    value = [None, "", " ", "a cat", None, b"a dog\n", ""]
    assert take(value, choose="all").texts == ("a cat", "a dog")
    assert take(value).texts == ("a cat",)
    assert take(value, allow_empty=True).texts == ("a cat",)


def test_what_was_not_taken_is_noted():
    assert take(["one", "two", "three"]).notes == ("1 of 3 captions taken (first)",)
    assert take(["one", "two"], choose="random").notes == ("1 of 2 captions taken (random)",)
    assert take(["one", "two"], choose="all").notes == ()
    assert take(["one", None]).notes == ()


def test_random_follows_the_seed_key_alone_and_reaches_every_caption():
    value = ["a", "b", "c"]
    keys = [f"7:{number}.jpg" for number in range(60)]
    first = [take(value, choose="random", seed_key=key).texts for key in keys]
    np.random.default_rng(0).random()
    assert first == [take(value, choose="random", seed_key=key).texts for key in keys]
    assert set(first) == {("a",), ("b",), ("c",)}


def test_a_seed_key_of_a_file_name_that_is_no_text_works():
    assert take(["a", "b"], choose="random", seed_key="caf\udce9.jpg").texts[0] in "ab"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3, "3"),
        (1.0, "1.0"),
        (-0.5, "-0.5"),
        (0, "0"),
        (np.int64(3), "3"),
        (np.float32(0.5), "0.5"),
        (10**20, "100000000000000000000"),
    ],
)
def test_numbers_become_text(value, text):
    assert take(value).texts == (text,)
    assert take(json.loads(json.dumps({"n": [float(value)]}))["n"]).texts == (str(float(value)),)


@pytest.mark.parametrize("value", [True, False, [True], np.bool_(True)])
def test_booleans_are_no_caption(value):
    assert code_of(value) == "no_caption"


def test_nested_lists_and_arrays_are_read_in_order():
    assert take([["a", ["b"]], ("c",)], choose="all").texts == ("a", "b", "c")
    assert take(np.array(["a", "b"]), choose="all").texts == ("a", "b")
    assert take(np.array([None, b"b"], dtype=object)).texts == ("b",)


def test_several_lines_are_one_caption_or_one_each_and_never_the_first_in_silence():
    value = b"a cat\r\n\r\n  a dog \nan owl\n"
    assert take(value).texts == ("a cat\n\n  a dog \nan owl",)
    each = take(value, lines="each", choose="all")
    assert each == CaptionTexts(("a cat", "  a dog ", "an owl"), ())
    first = take(value, lines="each")
    assert first == CaptionTexts(("a cat",), ("1 of 3 captions taken (first)",))


def test_lines_of_all_entries_are_chosen_from_together():
    seen = set()
    for number in range(40):
        seen |= {*take(["a\nb", "c"], lines="each", choose="random", seed_key=str(number)).texts}
    assert seen == {"a", "b", "c"}


def test_only_a_newline_ends_a_line():
    value = "a\x0bb\x0cc\x1cd\x85e\u2028f"
    assert take(value, lines="each", choose="all").texts == (value,)


def test_half_a_surrogate_pair_is_an_encoding_reject():
    assert code_of(json.loads('"a \\ud800 b"')) == "caption_encoding"
    assert take(json.loads('"\\ud83d\\ude00"')).texts == ("\U0001f600",)


def test_an_undecodable_entry_of_a_list_rejects():
    assert code_of([b"\xff\xfa\x81\x8d", "fine"]) == "caption_encoding"


def test_the_note_of_another_encoding_is_given_once():
    assert take(["caf\xe9".encode("cp1252")] * 2, choose="all").notes == ("caption read as cp1252",)


def test_the_locale_never_matters():
    program = (
        "import sys; from diffprep_resources.captions.text import caption_texts as c; "
        "t = c(bytes.fromhex(sys.argv[1]), choose='first', lines='whole', allow_empty=False, "
        "seed_key='k'); sys.stdout.buffer.write(repr(t).encode('ascii', 'backslashreplace'))"
    )
    data = "caf\xe9 \u732b\n".encode().hex()
    results = set()
    for locale, utf8 in itertools.product(("C", "ko_KR.cp949"), ("0", "1")):
        environment = {**os.environ, "LC_ALL": locale, "PYTHONUTF8": utf8}
        command = [sys.executable, "-c", program, data]
        results.add(
            subprocess.run(command, env=environment, capture_output=True, check=True).stdout
        )
    assert results == {b"CaptionTexts(texts=('caf\\xe9 \\u732b',), notes=())"}
