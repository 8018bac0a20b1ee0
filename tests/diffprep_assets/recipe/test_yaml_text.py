import math
import time

import pytest

from diffprep_assets.recipe.yaml_text import plain_value, read_yaml


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12", 12),
        ("-3", -3),
        ("1_000", 1000),
        ("0", 0),
        ("1e-5", 1e-5),
        ("1E5", 1e5),
        ("1.0e-5", 1e-5),
        (".5", 0.5),
        ("2.", 2.0),
        ("true", True),
        ("False", False),
        ("yes", True),
        ("off", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("010", "010"),
        ("0x10", "0x10"),
        ("12:30", "12:30"),
        ("2024-01-01", "2024-01-01"),
        ("1.2.3", "1.2.3"),
        ("1/2", "1/2"),
        ("e5", "e5"),
        ("9" * 40, "9" * 40),
    ],
)
def test_a_scalar_means_what_people_mean(text: str, value: object):
    found = plain_value(text)
    assert found == value
    assert type(found) is type(value)


def test_infinities_and_nan_are_floats():
    assert plain_value("-.inf") == -math.inf
    assert str(plain_value(".NaN")) == "nan"
    assert plain_value(".Inf") == math.inf


def test_a_colour_without_quotes_is_a_problem_since_yaml_drops_it():
    for text in ("a: #ff0000\n", "b: {a: #ff0000\n}", "a:   #abc"):
        document = read_yaml(text, environment={})
        assert "needs quotes" in document.problems[0].message, text
    for text in ("a: # red\n", "a: '#ff0000'\n", "a: 5 #ff0000\n", "a:\n  b: 1 #ff0000"):
        assert read_yaml(text, environment={}).problems == [], text


def test_lines_and_spelling_are_kept():
    document = read_yaml("a:\n  b: 1e3\n  c:\n    - x\n    - 'y'\n", environment={})
    assert document.data == {"a": {"b": 1000.0, "c": ["x", "y"]}}
    assert document.lines[("a", "b")] == 2
    assert document.lines[("a", "c", 1)] == 5
    assert document.written[("a", "b")] == "1e3"


def test_a_key_that_stands_twice_is_a_problem_with_both_lines():
    document = read_yaml("a: {b: 1}\nc: 2\na:\n  d: 3\n", environment={})
    assert [problem.message for problem in document.problems] == [
        "stands here a second time; first in line 1"
    ]
    assert document.data == {"a": {"b": 1}, "c": 2}


@pytest.mark.parametrize(
    "text",
    [
        "a: !!python/object/apply:os.system [echo]",
        "a: !!python/name:os.system",
        "a: !!binary aGVsbG8=",
        "a: !mine {b: 1}",
        "a: !!set {b, c}",
    ],
)
def test_tags_that_make_objects_are_problems(text: str):
    document = read_yaml(text, environment={})
    assert "must not carry the tag" in document.problems[0].message


def test_an_alias_is_followed():
    document = read_yaml("a: &x [1, 2]\nb: *x\n", environment={})
    assert document.data == {"a": [1, 2], "b": [1, 2]}


def test_an_alias_bomb_ends_soon():
    text = "a0: &a0 [x, x]\n"
    text += "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 15))
    start = time.monotonic()
    document = read_yaml(text, environment={})
    assert time.monotonic() - start < 10
    assert any("far more than a recipe can" in problem.message for problem in document.problems)


def test_an_alias_to_itself_is_a_problem():
    document = read_yaml("a: &a [*a]\n", environment={})
    assert any("refer to itself" in problem.message for problem in document.problems)


@pytest.mark.parametrize("text", ["[1, 2]: x", "{a: b}: c", "true: x", "~: x", "1.5: x"])
def test_keys_are_words_or_whole_numbers(text: str):
    document = read_yaml(text, environment={})
    assert "not a key" in document.problems[0].message


def test_whole_numbers_are_keys():
    assert read_yaml("{512: 1}", environment={}).data == {512: 1}


def test_no_text_makes_it_raise():
    for text in (
        "\x00",
        "a:\u2028 b:\u2028 c: ",
        "a: 'x",
        "%YAML 9",
        "&",
        "*x",
        "? ",
        "- - -",
        "!!int x",
        "!!int 'x'",
    ):
        read_yaml(text, environment={})
