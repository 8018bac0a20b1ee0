"""The condition `curate.filters.where`: one expression over the source's own columns.

DuckDB parses it, and only what is understood here is written anew as SQL, every column under a
name of our own and every text quoted. So what is evaluated is what was checked: comparisons and
arithmetic, with no table, query, setting, file, clock or chance in reach.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import duckdb

MAX_LENGTH = 10_000
MAX_DEPTH = 100
FUNCTIONS = {
    **dict.fromkeys(("+", "-", "*", "/", "//", "%", "abs", "round", "floor", "ceil"), "numbers"),
    **dict.fromkeys(("lower", "upper", "trim", "length", "contains", "starts_with"), "texts"),
    **dict.fromkeys(("ends_with", "regexp_matches", "regexp_full_match"), "texts"),
    **dict.fromkeys(("~~", "!~~", "~~*", "!~~*"), "texts"),
}
TYPES = ("boolean", "integer", "bigint", "double", "varchar")
ALLOWED = (
    "allowed are columns, numbers, 'texts', true, false, null; = != < <= > >=, between, in, is "
    "null, is distinct from; and, or, not; + - * / // %; like, ilike; coalesce; try_cast and cast "
    f"to {', '.join(TYPES)}; {', '.join(name for name in FUNCTIONS if name.isidentifier())}"
)
_COMPARISONS = {
    "COMPARE_EQUAL": "=",
    "COMPARE_NOTEQUAL": "<>",
    "COMPARE_LESSTHAN": "<",
    "COMPARE_GREATERTHAN": ">",
    "COMPARE_LESSTHANOREQUALTO": "<=",
    "COMPARE_GREATERTHANOREQUALTO": ">=",
    "COMPARE_DISTINCT_FROM": "is distinct from",
    "COMPARE_NOT_DISTINCT_FROM": "is not distinct from",
}
_TRUTHS = {*_COMPARISONS, "COMPARE_BETWEEN", "COMPARE_IN", "COMPARE_NOT_IN", "OPERATOR_NOT"} | {
    *("CONJUNCTION_AND", "CONJUNCTION_OR", "OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL")
}
_NUMBER = re.compile(r"-?[0-9_]+|-?[0-9_]*\.?[0-9_]*([eE][+-]?[0-9]+)?")
_TYPE_WORDS = {"int": "integer", "int4": "integer", "int8": "bigint", "long": "bigint"} | {
    **{"bool": "boolean", "float8": "double", "text": "varchar", "string": "varchar"},
    **{"logical": "boolean", "int32": "integer", "int64": "bigint"},
}
_SELECT = "select ("
Node = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition that was checked. `sql` names the i-th of `columns` as c<i>."""

    text: str
    columns: tuple[str, ...]
    sql: str


class WhereError(ValueError):
    """What is wrong with a condition, in words that go on after `curate.filters.where`."""


def check_where(text: str) -> tuple[str, ...]:
    """The columns that a condition names, in the order in which they come. Raises ValueError for
    one that is not understood, saying what, where and what is allowed. Imports duckdb."""
    return parsed_where(text).columns


@lru_cache(maxsize=64)
def parsed_where(text: str) -> Condition:
    """The checked condition, kept: a recipe is read several times. Raises WhereError."""
    text = text.strip()
    if not text:
        raise WhereError("must be a condition like `score >= 5`, got nothing")
    if len(text) > MAX_LENGTH:
        raise WhereError(f"has {len(text):,} characters; at most {MAX_LENGTH:,} are read")
    node = _expression(text)
    writer = _Writer(text)
    sql = writer.sql(node)
    if not writer.columns:
        raise WhereError("names no column, so it would be the same for every sample")
    if node["type"] not in _TRUTHS and node["class"] in ("FUNCTION", "CONSTANT", "OPERATOR"):
        yields_truth = node.get("function_name") in _TRUE_FUNCTIONS
        if not yields_truth and node["type"] != "OPERATOR_COALESCE":
            raise WhereError("must be true or false for a sample, like `score >= 5`")
    return Condition(text, tuple(writer.columns), sql)


_TRUE_FUNCTIONS = frozenset(
    ("contains", "starts_with", "ends_with", "regexp_matches", "regexp_full_match")
) | frozenset(("~~", "!~~", "~~*", "!~~*"))


def locked_connection(*, memory_mb: int = 512) -> "duckdb.DuckDBPyConnection":
    """A DuckDB in memory that reaches no file, network, extension or Python variable, on one
    thread, and whose settings cannot be changed."""
    import duckdb

    connection = duckdb.connect(":memory:")
    for setting in (
        "threads = 1",
        f"memory_limit = '{memory_mb}MB'",
        "temp_directory = ''",
        "autoinstall_known_extensions = false",
        "autoload_known_extensions = false",
        "python_enable_replacements = false",
        "enable_external_access = false",
        "lock_configuration = true",
    ):
        connection.execute(f"set {setting}")
    return connection


def _expression(text: str) -> Node:
    """The one expression of the text, as DuckDB's parser understands it."""
    with locked_connection() as connection:
        query = f"{_SELECT}{text}) as keep"
        row = connection.execute("select json_serialize_sql(?)", [query]).fetchone()
    try:
        found = json.loads(row[0]) if row else {}
    except RecursionError:
        raise _too_deep() from None
    if found.get("error"):
        raise _syntax_error(text, found)
    statements = found["statements"]
    node = statements[0]["node"]
    chosen = node.get("select_list") or []
    plain = (
        len(statements) == len(chosen) == 1
        and node["type"] == "SELECT_NODE"
        and node["from_table"]["type"] == "EMPTY"
        and not any(node.get(clause) for clause in _CLAUSES)
        and not node["cte_map"]["map"]
        and chosen[0].get("alias") == "keep"
    )
    if not plain:
        raise WhereError("must be one condition, without `select`, `from` or `;`")
    return chosen[0]


_CLAUSES = ("modifiers", "where_clause", "group_expressions", "having", "sample", "qualify")


def _syntax_error(text: str, found: Mapping[str, Any]) -> WhereError:
    """DuckDB's refusal, with the place counted in the condition."""
    message = str(found.get("error_message", "")).partition("\n")[0]
    if "depth" in message:
        return _too_deep()
    place = str(found.get("position", ""))
    at = int(place) - len(_SELECT) if place.isdecimal() else -1
    raw = text.encode()
    if not 0 <= at <= len(raw):
        return WhereError(f"cannot be read: {message}")
    if at >= len(raw.rstrip()):
        return WhereError("is not finished")
    before = raw[:at].decode("utf-8", "replace")
    word = raw[at:].decode("utf-8", "replace").split()[0][:40]
    return WhereError(f"cannot be read at character {len(before) + 1}, `{word}`")


def _too_deep() -> WhereError:
    return WhereError(f"nests too deeply; at most {MAX_DEPTH} levels are read")


class _Writer:
    """Writes a parsed expression as SQL, or refuses it."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.columns: list[str] = []
        self._depth = 0
        self._classes: dict[str, Callable[[Node], str]] = {
            "COLUMN_REF": self._column,
            "CONSTANT": self._constant,
            "COMPARISON": self._comparison,
            "CONJUNCTION": self._conjunction,
            "OPERATOR": self._operator,
            "BETWEEN": self._between,
            "FUNCTION": self._function,
            "CAST": self._cast,
        }

    def sql(self, node: Node) -> str:
        write = self._classes.get(node["class"])
        if write is None:
            raise self._refusal(node, str(node["class"]).lower().replace("_", " "))
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise _too_deep()
        written = write(node)
        self._depth -= 1
        return written

    def _refusal(self, node: Node, what: str) -> WhereError:
        at, length = node.get("query_location", -1), node.get("query_location_length", 0)
        start = at - len(_SELECT)
        raw = self._text.encode()
        place = f"`{self._text[:80]}`"
        if 0 <= start < len(raw) and length:
            piece = raw[start : start + length].decode("utf-8", "replace").strip()[:80]
            before = raw[:start].decode("utf-8", "replace")
            place = f"`{piece}` at character {len(before) + 1}"
        return WhereError(f"may not hold {place} ({what}); {ALLOWED}")

    def _column(self, node: Node) -> str:
        # A dotted path into JSON reads like a qualified name.
        name = ".".join(node["column_names"])
        if not all(part.strip() for part in name.split(".")) or "\0" in name:
            raise self._refusal(node, "a name that no column can have")
        if name not in self.columns:
            self.columns.append(name)
        return f"c{self.columns.index(name)}"

    def _constant(self, node: Node) -> str:
        kind, text = node["literal"]["kind"], node["literal"].get("text", "")
        if kind == "NULL_LITERAL":
            return "null"
        if kind == "BOOLEAN" and text in ("true", "false"):
            return text
        if kind in ("INTEGER", "NUMERIC") and _NUMBER.fullmatch(text):
            return f"({text})"
        if kind == "STRING" and "\0" not in text:
            return "'" + text.replace("'", "''") + "'"
        raise self._refusal(node, "a literal of another kind")

    def _comparison(self, node: Node) -> str:
        sign = _COMPARISONS.get(node["type"])
        if sign is None:
            raise self._refusal(node, "a comparison of another kind")
        return f"({self.sql(node['left'])} {sign} {self.sql(node['right'])})"

    def _conjunction(self, node: Node) -> str:
        word = {"CONJUNCTION_AND": " and ", "CONJUNCTION_OR": " or "}[node["type"]]
        return "(" + word.join(map(self.sql, node["children"])) + ")"

    def _between(self, node: Node) -> str:
        value, low, high = (self.sql(node[part]) for part in ("input", "lower", "upper"))
        return f"({value} between {low} and {high})"

    def _operator(self, node: Node) -> str:
        kind = node["type"]
        values = [self.sql(child) for child in node["children"]]
        if kind in ("COMPARE_IN", "COMPARE_NOT_IN"):
            word = "in" if kind == "COMPARE_IN" else "not in"
            return f"({values[0]} {word} ({', '.join(values[1:])}))"
        if kind == "OPERATOR_COALESCE":
            return f"coalesce({', '.join(values)})"
        if kind == "OPERATOR_NOT":
            return f"(not {values[0]})"
        if kind in ("OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL"):
            return f"({values[0]} {'is null' if kind == 'OPERATOR_IS_NULL' else 'is not null'})"
        raise self._refusal(node, kind.lower().replace("_", " "))

    def _function(self, node: Node) -> str:
        name = node["function_name"].lower()
        # Keys of a call that stand for something: DISTINCT, FILTER, ORDER BY, a schema, names.
        extra = node["distinct"] or node["filter"] or node["order_bys"]["orders"]
        extra = extra or node["schema"] or node["catalog"] or node["export_state"]
        arguments = node["arguments"]
        if name not in FUNCTIONS or extra or any(given["name"] for given in arguments):
            raise self._refusal(node, f"the function {name}")
        values = [self.sql(given["expression"]) for given in arguments]
        if name.isidentifier():
            return f"{name}({', '.join(values)})"
        words = {"~~": "like", "!~~": "not like", "~~*": "ilike", "!~~*": "not ilike"}
        sign = words.get(name, name)
        return f"({sign} {values[0]})" if len(values) == 1 else f"({f' {sign} '.join(values)})"

    def _cast(self, node: Node) -> str:
        kind = node["type_expr"]
        plain = kind["class"] == "TYPE" and not (
            kind["children"] or kind["schema"] or kind["catalog"]
        )
        name = kind["type_name"].lower()
        name = _TYPE_WORDS.get(name, name)
        if not plain or name not in TYPES:
            raise self._refusal(node, f"a cast to {kind.get('type_name', '?')}")
        word = "try_cast" if node["try_cast"] else "cast"
        return f"{word}({self.sql(node['child'])} as {name})"
