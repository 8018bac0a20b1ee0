"""`${NAME}` and `${NAME:default}` in a recipe: values from the environment.

References are taken out of the text before YAML reads it and put back into scalars afterwards, so
that they work anywhere (in quotes, in `{...}` and `[...]`), and no value changes the structure.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::([^{}\n]*))?\}")
# Two characters of Unicode's private use area, which YAML takes for letters.
_SHIELDED = re.compile("\ue000(\\d+)\ue001")


@dataclass(frozen=True, slots=True)
class Reference:
    name: str
    default: str | None
    text: str


def shield(text: str) -> tuple[str, list[Reference]]:
    """The text with a placeholder for each reference, and the references by number."""
    references: list[Reference] = []

    def take(match: re.Match[str]) -> str:
        references.append(Reference(match[1], match[2], match[0]))
        return f"\ue000{len(references) - 1}\ue001"

    return _REFERENCE.sub(take, text), references


def unshield(text: str, references: list[Reference]) -> str:
    """The text as it was written, for quoting it."""
    return _SHIELDED.sub(lambda match: references[int(match[1])].text, text)


def substitute(
    text: str, references: list[Reference], *, environment: Mapping[str, str]
) -> str | None:
    """The text with every reference's value, or None if it holds none.

    A variable that is set to the empty text gives the empty text. Raises ValueError naming a
    variable that is unset and has no default, and for a `${` that is not a reference.
    """
    if "${" in text:
        raise ValueError("has a ${ that is not a reference; write ${NAME} or ${NAME:default}")
    if not _SHIELDED.search(text):
        return None
    return _SHIELDED.sub(lambda match: _value(references[int(match[1])], environment), text)


def _value(reference: Reference, environment: Mapping[str, str]) -> str:
    name, default = reference.name, reference.default
    if default is not None and default.startswith("-"):
        raise ValueError(
            f"uses {reference.text}, the shell's spelling; here it is ${{{name}:default}}"
        )
    value = environment.get(name, default)
    if value is None:
        raise ValueError(
            f"needs the environment variable {name}, which is not set; "
            f"set it, or give a default: ${{{name}:default}}"
        )
    return value
