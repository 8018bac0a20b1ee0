"""Values of source fields, and the one type that a column of them has.

A value is a bool, a whole number, a float, a text or null. What is not becomes one: lists and
objects their JSON, dates their ISO text, decimals floats, NaN null; bytes are no value. What a file
gives no type (a CSV's cells) is read as numbers, or as true and false, where every cell is one.
"""

import json
import math
import re
from collections.abc import Iterable, Sequence
from datetime import date, datetime, time
from decimal import Decimal

import pyarrow as pa

from diffprep_resources.sources.base import PlainText

Plain = bool | int | float | str | None
_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_FLOAT = re.compile(r"-?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
_TRUTHS = {"true": True, "false": False}
_INT64 = 1 << 63


def plain(value: object) -> Plain:
    """The value as one that a column can hold; PlainText stays what it is."""
    if isinstance(value, PlainText):
        return value if value and value.lower() != "nan" else None
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if -_INT64 <= value < _INT64 else _finite_or_not(value)
    if isinstance(value, float | Decimal):
        number = float(value)
        return None if math.isnan(number) else number
    return _text_of_other(value)


def _finite_or_not(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _text_of_other(value: object) -> str | None:
    if isinstance(value, bytes | bytearray | memoryview):
        return None
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if not isinstance(value, str):
        value = json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)
    # A lone surrogate, which stands for a byte that is not UTF-8, cannot be stored.
    return value.encode("utf-8", "replace").decode("utf-8")


def column_of(values: Sequence[Plain]) -> pa.Array:
    """The values as one array: null, bool, int64, float64, or string where they are of several
    kinds; whole numbers among floats are floats."""
    read = _read_texts(values)
    kinds = {_kind(value) for value in read if value is not None}
    kind = common_type(kinds)
    if pa.types.is_string(kind):
        return pa.array([None if value is None else text_of(value) for value in read], kind)
    if pa.types.is_float64(kind):
        return pa.array([None if value is None else float(value) for value in read], kind)
    return pa.array(read, kind)


def _kind(value: Plain) -> pa.DataType:
    if isinstance(value, bool):
        return pa.bool_()
    if isinstance(value, int):
        return pa.int64()
    return pa.float64() if isinstance(value, float) else pa.string()


def _read_texts(values: Sequence[Plain]) -> list[Plain]:
    """The values with texts of no type read as numbers or truths, if all of them are such."""
    untyped = [value for value in values if isinstance(value, PlainText)]
    if not untyped:
        return list(values)
    if all(_INTEGER.fullmatch(text) for text in untyped):
        read = int
    elif all(_FLOAT.fullmatch(text) for text in untyped):
        read = float
    elif all(text.lower() in _TRUTHS for text in untyped):
        read = _truth
    else:
        read = str
    return [read(value) if isinstance(value, PlainText) else value for value in values]


def _truth(text: str) -> bool:
    return _TRUTHS[text.lower()]


def text_of(value: Plain) -> str:
    """The value as text: true and false, and floats by their shortest decimal form."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else str(value)


def common_type(kinds: Iterable[pa.DataType]) -> pa.DataType:
    """The one type for values of several: floats for whole numbers and floats, texts for all other
    mixtures; null where there are none."""
    found = {kind for kind in kinds if not pa.types.is_null(kind)}
    if len(found) <= 1:
        return found.pop() if found else pa.null()
    return pa.float64() if found == {pa.int64(), pa.float64()} else pa.string()


def as_type(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """The column widened to `kind`, which `common_type` gave for its own type and others."""
    if column.type == kind:
        return column
    if pa.types.is_string(kind):
        texts = [None if value is None else text_of(value) for value in column.to_pylist()]
        return pa.chunked_array([pa.array(texts, kind)])
    return column.cast(kind, safe=False)
