"""A YAML text as plain data, with the line and the spelling of every key.

YAML as people mean it: of 1.1's surprises only yes/no/on/off are kept. `1e-5` is a number;
`2024-01-01`, `12:30` and `010` are text. A key that stands twice is an error, and no tag makes an
object.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import yaml

from diffprep_assets.recipe.problems import Location, Problem
from diffprep_assets.recipe.substitute import Reference, shield, substitute, unshield

MAX_NODES = 10_000
_TAG = "tag:yaml.org,2002:"
_SCALAR_TAGS = tuple(
    _TAG + kind for kind in ("null", "bool", "int", "float", "str", "timestamp", "value", "merge")
)
_NULL = re.compile(r"|~|null|Null|NULL")
_TRUE = re.compile(r"true|True|TRUE|yes|Yes|YES|on|On|ON")
_FALSE = re.compile(r"false|False|FALSE|no|No|NO|off|Off|OFF")
_INT = re.compile(r"[-+]?(0|[1-9][0-9_]{0,30})")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|(0|[1-9][0-9_]*)(\.[0-9]*|(?=[eE])))([eE][-+]?[0-9]{1,4})?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_COLOUR_COMMENT = re.compile(r"[ \t]*(#[0-9a-fA-F]{3,8})[ \t]*[,}]?[ \t]*(\n|$)")


@dataclass(slots=True)
class Document:
    """`data` is None when the text could not be read at all. Lines count from 1."""

    text: str = ""
    data: object = None
    lines: dict[Location, int] = field(default_factory=dict)
    written: dict[Location, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


def plain_value(text: str) -> object:
    """What an unquoted scalar of this text means: null, a boolean, a number, or the text."""
    if _NULL.fullmatch(text):
        return None
    if _TRUE.fullmatch(text) or _FALSE.fullmatch(text):
        return bool(_TRUE.fullmatch(text))
    if _INT.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text.replace("_", ""))
    if _NOT_FINITE.fullmatch(text):
        return float(text.replace(".", ""))
    return text


def read_yaml(text: str, *, environment: Mapping[str, str]) -> Document:
    """The document, with every problem found in it; never raises."""
    shielded, references = shield(text)
    document = Document(text)
    try:
        node = yaml.compose(shielded, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        document.lines[()] = mark.line + 1 if mark else 1
        message = unshield(f"{error.context or ''} {error.problem or ''}".strip(), references)
        document.problems.append(Problem((), f"this is not YAML: {message}"))
        return document
    except (yaml.YAMLError, RecursionError) as error:
        document.lines[()] = 1
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        document.problems.append(Problem((), f"this is not YAML: {' '.join(reason.split())}"))
        return document
    reader = _Reader(document, references, environment, text=shielded)
    document.data = reader.read(node, ()) if node else {}
    return document


class _Reader:
    """Turns composed nodes into data, once per use of an alias, within a limit."""

    def __init__(
        self,
        document: Document,
        references: list[Reference],
        environment: Mapping[str, str],
        *,
        text: str,
    ) -> None:
        self.text = text
        self.document = document
        self.references = references
        self.environment = environment
        self.num_nodes = 0

    def read(self, node: yaml.Node, where: Location) -> object:
        self.document.lines.setdefault(where, node.start_mark.line + 1)
        self.num_nodes += 1
        if self.num_nodes > MAX_NODES or len(where) > 20:
            self._problem(where, "holds far more than a recipe can; does an alias refer to itself?")
            return None
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, where)
        if isinstance(node, yaml.SequenceNode) and node.tag == f"{_TAG}seq":
            return [self.read(item, (*where, index)) for index, item in enumerate(node.value)]
        if isinstance(node, yaml.MappingNode) and node.tag == f"{_TAG}map":
            return self._mapping(node, where)
        self._problem(where, f"must not carry the tag {node.tag.replace(_TAG, '!!')}")
        return None

    def _mapping(self, node: yaml.MappingNode, where: Location) -> dict[str | int, object]:
        found: dict[str | int, object] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            key = self._scalar(key_node, where) if isinstance(key_node, yaml.ScalarNode) else None
            if isinstance(key, bool) or not isinstance(key, str | int):
                self.document.lines[(*where, "")] = line
                self._problem((*where, ""), "has something here that is not a key; keys are words")
                continue
            inner = (*where, key)
            if key in found:
                first = self.document.lines[inner]
                self.document.lines[(*inner, "")] = line
                self._problem(
                    (*inner, ""),
                    f"stands here a second time; first in line {first}",
                )
                continue
            self.document.lines[inner] = line
            found[key] = self.read(value_node, inner)
        return found

    def _scalar(self, node: yaml.ScalarNode, where: Location) -> object:
        self.document.written[where] = unshield(node.value, self.references)
        try:
            substituted = substitute(node.value, self.references, environment=self.environment)
        except ValueError as error:
            self._problem(where, str(error))
            return None
        if node.tag not in _SCALAR_TAGS:
            self._problem(where, f"must not carry the tag {node.tag.replace(_TAG, '!!')}")
            return None
        if substituted is None and node.style is None:
            self._warn_of_colour(node, where)
            return plain_value(node.value)
        if substituted is None:
            return node.value
        if node.style is None and substituted.strip():
            return plain_value(substituted.strip())
        return substituted

    def _warn_of_colour(self, node: yaml.ScalarNode, where: Location) -> None:
        """`background: #000000` is a key without a value and a comment; nobody means that."""
        start = node.start_mark.index
        comment = _COLOUR_COMMENT.match(self.text[start : start + 60]) if not node.value else None
        if comment:
            self._problem(where, f"needs quotes, '{comment[1]}'; without them # begins a comment")

    def _problem(self, where: Location, message: str) -> None:
        self.document.problems.append(Problem(where, message))
