"""Settings from the command line, laid over a recipe as if its file said so."""

from collections.abc import Mapping

from diffprep_assets.recipe.problems import COMMAND_LINE, Location, Problem
from diffprep_assets.recipe.yaml_text import Document, plain_value, read_yaml


def apply_override(
    document: Document, key: str, value: object, *, environment: Mapping[str, str]
) -> None:
    """Set the dotted key in the document's data; problems go to the document.

    A text is read as YAML would read it unquoted (`512`, `true`, `null`); one that begins with a
    bracket or a quote is read as YAML proper. Any other value is taken as it is.
    """
    where: Location = tuple(key.split("."))
    _forget(document, where)
    document.lines[where] = COMMAND_LINE
    if isinstance(value, str):
        value = _read(document, where, value, environment=environment)
    if document.data is None and not document.problems:
        document.data = {}
    holder = document.data
    if not isinstance(holder, dict):
        return
    for part in where[:-1]:
        inner = holder.get(part)
        if inner is None:
            inner = holder[part] = {}
            document.lines.setdefault(where[: where.index(part) + 1], COMMAND_LINE)
        if not isinstance(inner, dict):
            document.problems.append(Problem(where, f"cannot be set: {part} is not a section"))
            return
        holder = inner
    holder[where[-1]] = value


def _read(
    document: Document, where: Location, text: str, *, environment: Mapping[str, str]
) -> object:
    if not text.strip().startswith(("[", "{", '"', "'")):
        document.written[where] = text
        return plain_value(text.strip()) if text.strip() else text
    read = read_yaml(text, environment=environment)
    document.problems += [Problem(where, problem.sentence) for problem in read.problems]
    for inner, written in read.written.items():
        document.written[(*where, *inner)] = written
    return read.data


def _forget(document: Document, where: Location) -> None:
    for known in (document.lines, document.written):
        for inner in [place for place in known if place[: len(where)] == where]:
            del known[inner]
    document.problems = [
        problem for problem in document.problems if problem.where[: len(where)] != where
    ]
