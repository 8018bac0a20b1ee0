"""Values of fields, and the one type of a column."""

import math
from datetime import date
from decimal import Decimal

import pyarrow as pa
import pytest

from diffprep_assets.source_columns.values import as_type, column_of, common_type, plain, text_of
from diffprep_resources.sources.base import PlainText


def cells(*texts: str) -> list:
    return [PlainText(text) if text else None for text in texts]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (math.nan, None),
        (b"x", None),
        (PlainText("NaN"), None),
        (PlainText(""), None),
        (2**63 - 1, 2**63 - 1),
        (2**63, 2.0**63),
        (10**400, math.inf),
        (Decimal("0.5"), 0.5),
        (date(2026, 1, 2), "2026-01-02"),
        ({"b": 1, "a": ["\u00e9"]}, '{"a": ["\u00e9"], "b": 1}'),
        ("a\udc80", "a?"),
        (True, True),
    ],
)
def test_values_become_what_a_column_can_hold(value: object, expected: object) -> None:
    found = plain(value)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        ([None, None], pa.null(), [None, None]),
        ([1, None, 3], pa.int64(), [1, None, 3]),
        ([1, 0.5], pa.float64(), [1.0, 0.5]),
        ([True, None], pa.bool_(), [True, None]),
        ([True, 1, 0.5, "x"], pa.string(), ["true", "1", "0.5", "x"]),
        (cells("5", "", "-3"), pa.int64(), [5, None, -3]),
        (cells("5", "0.50", "1e3", ".5"), pa.float64(), [5.0, 0.5, 1000.0, 0.5]),
        (cells("True", "false"), pa.bool_(), [True, False]),
        (cells("5", "n/a"), pa.string(), ["5", "n/a"]),
        (cells("007", "5"), pa.string(), ["007", "5"]),
        ([PlainText("5"), 0.5], pa.float64(), [5.0, 0.5]),
    ],
)
def test_a_column_has_the_one_type_of_its_values(
    values: list, kind: pa.DataType, expected: list
) -> None:
    column = column_of(values)
    assert column.type == kind
    assert column.to_pylist() == expected


def test_types_of_parts_are_widened_to_one() -> None:
    null, whole, number, text, truth = (
        *(pa.null(), pa.int64(), pa.float64()),
        *(pa.string(), pa.bool_()),
    )
    assert common_type([null, null]) == null
    assert common_type([null, whole]) == whole
    assert common_type([whole, number, null]) == number
    assert common_type([whole, truth]) == text
    assert common_type([text, number]) == text
    columns = [pa.chunked_array([pa.array(values)]) for values in ([1, None], [True], [0.5])]
    assert as_type(columns[0], number).to_pylist() == [1.0, None]
    assert [as_type(column, text).to_pylist() for column in columns] == [
        ["1", None],
        ["true"],
        ["0.5"],
    ]
    assert as_type(pa.chunked_array([pa.nulls(2)]), number).to_pylist() == [None, None]
    assert text_of(0.1) == "0.1"
