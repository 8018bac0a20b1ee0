"""One thing that is wrong in a settings file, and the sentence that says so."""

import difflib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

Location = tuple[str | int, ...]
COMMAND_LINE = 0

_TOKEN = re.compile(r"\bhf_[A-Za-z0-9]{6,}")


@dataclass(frozen=True, slots=True)
class Problem:
    """`where` is the key's path; `others` are further keys that the message is about."""

    where: Location
    message: str
    others: tuple[Location, ...] = ()

    @property
    def sentence(self) -> str:
        return f"{dotted(self.where)} {self.message}" if self.where else self.message


def dotted(where: Location) -> str:
    """`output.splits.train`, `image.buckets.tiers[0]`."""
    text = ""
    for part in where:
        if isinstance(part, int):
            text += f"[{part}]"
        elif part:
            text += f".{part}" if text else part
    return text


def shown(value: object) -> str:
    """The value as a message quotes it: short, on one line, without tokens."""
    if isinstance(value, Mapping):
        text = "{" + ", ".join(f"{key}: {shown(item)}" for key, item in value.items()) + "}"
    elif isinstance(value, list | tuple):
        text = "[" + ", ".join(map(shown, value)) + "]"
    else:
        text = json.dumps(value, default=str, ensure_ascii=False)
    text = _TOKEN.sub("hf_***", text)
    return text if len(text) <= 80 else f"{text[:76]} ..."


def nearest(word: object, known: Iterable[str]) -> str | None:
    """The known word that is most like this one, or None."""
    spelt = {name.lower().replace("-", "_"): name for name in known}
    found = difflib.get_close_matches(str(word).lower().replace("-", "_"), spelt, n=1, cutoff=0.6)
    return spelt[found[0]] if found else None


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """`; did you mean bf16?`, or nothing."""
    found = nearest(word, known)
    return f"; did you mean {found}?" if found else ""


def report(path: object, problems: Iterable[Problem], *, lines: Mapping[Location, int]) -> str:
    """One line for each problem, in the file's order: `FILE, line N: KEY ...`.

    A key that has no line of its own (it is missing) takes that of what should hold it;
    line 0 stands for the command line.
    """
    ordered = sorted(dict.fromkeys(problems), key=lambda problem: _order(problem, lines))
    return "\n".join(f"{path}, {_place(problem, lines)}: {problem.sentence}" for problem in ordered)


def line_of(where: Location, lines: Mapping[Location, int]) -> int:
    """The line of the key, or of the nearest thing around it that has one."""
    while where and where not in lines:
        where = where[:-1]
    return lines.get(where, 1)


def _order(problem: Problem, lines: Mapping[Location, int]) -> tuple[bool, int]:
    line = line_of(problem.where, lines)
    return line == COMMAND_LINE, line


def _place(problem: Problem, lines: Mapping[Location, int]) -> str:
    numbers = {line_of(where, lines) for where in (problem.where, *problem.others)}
    words = []
    if in_file := sorted(numbers - {COMMAND_LINE}):
        word = "lines" if len(in_file) > 1 else "line"
        words.append(f"{word} {' and '.join(map(str, in_file))}")
    if COMMAND_LINE in numbers:
        words.append("command line")
    return " and ".join(words)
