"""What a validation found: checks, each with its failures, and facts about the dataset."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

SHOWN_FAILURES = 10


@dataclass(frozen=True, slots=True)
class Failure:
    """One thing wrong: in which shard (name in the output folder) and at which key, if in one."""

    message: str
    shard: str | None = None
    key: str | None = None

    def __str__(self) -> str:
        place = "/".join(part for part in (self.shard, self.key) if part)
        return f"{place}: {self.message}" if place else self.message


@dataclass(frozen=True, slots=True)
class Check:
    """One question about the dataset and its answer. Passed exactly when nothing failed."""

    name: str
    message: str
    failures: tuple[Failure, ...] = ()

    @property
    def passed(self) -> bool:
        return not self.failures


@dataclass(frozen=True, slots=True)
class ValidationReport:
    """Every check in the order made, and facts for a summary (all JSON values)."""

    checks: tuple[Check, ...]
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return all(check.passed for check in self.checks)

    @property
    def failures(self) -> tuple[Failure, ...]:
        return tuple(failure for check in self.checks for failure in check.failures)


def report_lines(report: ValidationReport) -> list[str]:
    """The report for a person: a line per check, the first failures under it, then the facts."""
    lines = []
    for check in report.checks:
        lines.append(f"{'ok  ' if check.passed else 'FAIL'} {check.name}: {check.message}")
        lines += [f"       {failure}" for failure in check.failures[:SHOWN_FAILURES]]
        if len(check.failures) > SHOWN_FAILURES:
            lines.append(f"       and {len(check.failures) - SHOWN_FAILURES:,} more")
    lines += [f"     {name}: {_words(value)}" for name, value in report.facts.items()]
    return lines


def _words(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_words(part)}" for key, part in value.items()) or "none"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(_words(part) for part in value) or "none"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
