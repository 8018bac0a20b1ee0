"""What pydantic finds wrong with settings, in words: what was got, what is allowed, what is near.

Serves recipes and the project's settings alike.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from diffprep_assets.recipe.problems import Location, Problem, did_you_mean, dotted, nearest, shown

_EXPECTED = {
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "int_parsing": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "string_type": "must be text",
    "tuple_type": "must be a list",
    "dict_type": "must be a mapping of keys to values",
    "string_too_short": "must not be empty",
    "too_short": "must not be empty",
    "too_long": "must have fewer items",
}
_BOUNDS = {
    "greater_than_equal": ("ge", "at least"),
    "greater_than": ("gt", "more than"),
    "less_than_equal": ("le", "at most"),
    "less_than": ("lt", "less than"),
}


def problems_of(
    error: ValidationError, *, model: type[BaseModel], written: Mapping[Location, str]
) -> list[Problem]:
    """One problem for each thing that pydantic found. `written` is how scalars were spelt."""
    problems = []
    for details in error.errors(include_url=False):
        where: Location = details["loc"]
        if details["type"] in ("extra_forbidden", "invalid_key"):
            message = _unknown_key(where, model)
        elif details["type"] == "missing":
            message = f"is required: {_description(model, where)}"
        else:
            message = _wrong_value(details, model=model, written=written)
        problems.append(Problem(where, message))
    return problems


def known_keys(model: type[BaseModel], *, within: Location = ()) -> Iterator[Location]:
    """Every key of the model and its sections, sections before what they hold."""
    for name, field in model.model_fields.items():
        yield (*within, name)
        section = _section_of(field.annotation)
        if section:
            yield from known_keys(section, within=(*within, name))


def _unknown_key(where: Location, model: type[BaseModel]) -> str:
    *above, key = where
    siblings = list((_model_at(model, tuple(above)) or model).model_fields)
    meant = _meant(key, siblings, within=tuple(above), known=list(known_keys(model)))
    hint = f"; did you mean {dotted(meant)}?" if meant else "."
    return f"is not a known key{hint} Known here: {', '.join(siblings)}"


def _meant(
    key: str | int, siblings: list[str], *, within: Location, known: list[Location]
) -> Location | None:
    """The same key elsewhere, else one that is spelt nearly so here, else elsewhere."""
    for location in known:
        if location[-1] == key:
            return location
    if near := nearest(key, siblings):
        return (*within, near)
    by_name = {str(location[-1]): location for location in reversed(known)}
    found = nearest(key, by_name)
    return by_name[found] if found else None


def _wrong_value(
    details: ErrorDetails, *, model: type[BaseModel], written: Mapping[Location, str]
) -> str:
    value = details["input"]
    spelt = written.get(details["loc"]) if isinstance(value, int | float) else None
    allowed, mark, reason = _allowed(details, model=model).partition(";")
    return f"{allowed}, got {spelt or shown(value)}{mark}{reason}{_hint(details)}"


def _allowed(details: ErrorDetails, *, model: type[BaseModel]) -> str:
    kind, where = details["type"], details["loc"]
    context: dict[str, Any] = details.get("ctx", {})
    if kind == "value_error":
        text = str(context["error"])
    elif kind == "literal_error":
        text = "must be " + _or(_choices(model, where))
    elif kind in _BOUNDS:
        name, words = _BOUNDS[kind]
        bound = context[name]
        text = f"must be {words} {int(bound) if bound == int(bound) else bound}"
    elif kind == "string_pattern_mismatch":
        text = f"must be {_description(model, where)}"
    elif kind in ("model_type", "model_attributes_type"):
        keys = (_model_at(model, where) or model).model_fields
        text = f"must be a section with the keys {', '.join(keys)}"
    else:
        text = _EXPECTED.get(kind, details["msg"])
    return text


def _hint(details: ErrorDetails) -> str:
    kind, value = details["type"], details["input"]
    if kind == "literal_error":
        choices = re.findall(r"'([^']+)'", str(details.get("ctx", {}).get("expected", "")))
        return did_you_mean(value, choices)
    if kind == "string_type" and isinstance(value, int | float):
        return "; put it in quotes to make it text"
    quoted = isinstance(value, str) and kind in ("bool_type", "int_type", "float_type")
    if quoted and re.fullmatch(r"(?i)true|false|[-+]?[0-9.]+", str(value)):
        return " as text; remove the quotes"
    return ""


def _choices(model: type[BaseModel], where: Location) -> tuple[str, ...]:
    owner = _model_at(model, where[:-1]) or model
    return get_args(owner.model_fields[str(where[-1])].annotation)


def _or(words: Sequence[str]) -> str:
    return ", ".join(words[:-1]) + f" or {words[-1]}"


def _description(model: type[BaseModel], where: Location) -> str:
    """That of the key, or of the list that the place is in."""
    while where and isinstance(where[-1], int):
        where = where[:-1]
    owner = _model_at(model, where[:-1]) or model
    return owner.model_fields[str(where[-1])].description or "a value"


def _model_at(model: type[BaseModel], where: Location) -> type[BaseModel] | None:
    current: type[BaseModel] | None = model
    for part in where:
        field = current.model_fields.get(str(part)) if current else None
        current = _section_of(field.annotation) if field else None
    return current


def _section_of(annotation: object) -> type[BaseModel] | None:
    for option in (annotation, *get_args(annotation)):
        if isinstance(option, type) and issubclass(option, BaseModel):
            return option
    return None
