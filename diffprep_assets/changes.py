"""What changed, in words: recipe fields, files, samples."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MODEL_FIELDS = frozenset({"model.vae", "model.t5", "model.clip"})


def changed_settings(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """`image.image_size 256 -> 512`, one for each field that differs, sorted by field.

    A section that is there before and after is told field by field.
    """
    reasons = []
    for name in sorted({*before, *now}):
        old, new = before.get(name), now.get(name)
        if old == new:
            continue
        if name in MODEL_FIELDS:
            reasons.append(f"{name} changed")
        elif isinstance(old, Mapping) and isinstance(new, Mapping):
            reasons += changed_settings(_below(name, old), _below(name, new))
        else:
            reasons.append(f"{name} {_shown(old)} -> {_shown(new)}")
    return reasons


def _below(name: str, section: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{name}.{key}": value for key, value in section.items()}


@dataclass(frozen=True, slots=True)
class Difference:
    """How many things of a kind came, went, or are no longer what they were."""

    added: int = 0
    removed: int = 0
    changed: int = 0

    def words(self, noun: str, *, changed: str = "changed", of: str | None = None) -> list[str]:
        """`2 samples added`, `1 picture edited`: one for each that is not 0. `of` is the noun of
        what changed, where it is not `noun`."""
        counts = (
            (self.added, noun, "added"),
            (self.removed, noun, "removed"),
            (self.changed, of or noun, changed),
        )
        return [f"{count:,} {plural(of, count)} {verb}" for count, of, verb in counts if count]


def difference(before: Mapping[Any, Any], now: Mapping[Any, Any]) -> Difference:
    """How `now` differs from `before`, key by key."""
    return Difference(
        added=sum(key not in before for key in now),
        removed=sum(key not in now for key in before),
        changed=sum(key in before and before[key] != value for key, value in now.items()),
    )


def plural(noun: str, count: int) -> str:
    """The noun as the count wants it."""
    return noun if count == 1 else f"{noun}s"


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, Mapping):
        parts = (f"{key}: {_shown(value[key])}" for key in sorted(value))
        return "{" + ", ".join(parts) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_shown(part) for part in value) + "]"
    return str(value).lower() if isinstance(value, bool) else str(value)
