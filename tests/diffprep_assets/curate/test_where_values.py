"""Conditions over small columns."""

import pyarrow as pa
import pytest

from diffprep_assets.curate.where import parsed_where
from diffprep_assets.curate.where_values import where_values
from diffprep_resources.errors import SettingError

ROWS = pa.table(
    {
        "score": pa.array([5.0, 4.9, None, 7.0]),
        "json.tag": pa.array(["Cat", "dog", "cat", None]),
        "seen": pa.array([True, False, None, True]),
        "number": pa.array([5, 6, 7, 8]),
    }
)


def values(text: str, *, limit_s: float = 30.0) -> list[bool | None]:
    with where_values(parsed_where(text), limit_s=limit_s) as where:
        return list(where.values(ROWS))


def test_a_row_is_true_false_or_missing() -> None:
    assert values("score >= 5") == [True, False, None, True]
    assert values("score >= 5 and lower(json.tag) = 'cat'") == [True, False, None, None]
    assert values("seen") == [True, False, None, True]
    assert values("coalesce(score, 10) >= 5") == [True, False, True, True]
    assert values("number % 2 = 0 or score is null") == [False, True, True, True]
    assert values("try_cast(json.tag as double) is null") == [True] * 4
    assert values("regexp_matches(json.tag, '^[Cc]at$')") == [True, False, True, None]


def test_values_that_do_not_fit_are_told_with_the_columns_names_and_types() -> None:
    for text, words in {
        "json.tag > 5": "Cannot compare.*json.tag is string.*try_cast",
        "cast(json.tag as double) > 5": "Could not convert string 'Cat'",
        "lower(score) = 'x'": "score is double",
        "coalesce(number, 1)": "must be true or false for a sample, but is int64",
        "regexp_matches(json.tag, '(')": "missing \\)",
    }.items():
        with pytest.raises(SettingError, match=words) as refused:
            values(text)
        assert str(refused.value).startswith("curate.filters.where")


def test_a_condition_that_takes_too_long_is_ended() -> None:
    rows = pa.table({"text": ["a" * 1_000] * 60_000})
    condition = parsed_where("regexp_matches(text, '(a|aa|aaa|b)*c(x|y)*d')")
    with (
        where_values(condition, limit_s=0.05) as where,
        pytest.raises(SettingError, match=r"60,000 samples took longer than 0\.05 s"),
    ):
        list(where.values(rows))


def test_no_rows_give_no_values() -> None:
    with where_values(parsed_where("score > 1")) as where:
        assert list(where.values(ROWS.slice(0, 0))) == []
