"""Which paths a Hub dataset's file patterns match."""

from collections.abc import Iterable
from fnmatch import fnmatchcase

from diffprep_resources.errors import SettingError


def matching(paths: Iterable[str], patterns: Iterable[str], *, where: str) -> list[str]:
    """The paths that a pattern matches, or that lie in a folder it matches, sorted.

    `*` and `?` stay within a name, `**` crosses folders. Raises SettingError for a pattern that is
    absolute, remote or leads outside.
    """
    wanted = [_parts(pattern, where=where) for pattern in patterns]
    return sorted(
        path for path in paths if any(_matches(path.split("/"), parts) for parts in wanted)
    )


def _parts(pattern: str, *, where: str) -> list[str]:
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    if pattern.startswith("/") or "://" in pattern or ".." in parts or not parts:
        raise SettingError(
            f"{where} must name files relative to the dataset's folder, got {pattern!r}"
        )
    return [part for at, part in enumerate(parts) if part != "**" or parts[at - 1 : at] != ["**"]]


def _matches(names: list[str], pattern: list[str]) -> bool:
    if not pattern:
        return True
    if pattern[0] == "**":
        rest = pattern[1:]
        return not rest or any(_matches(names[at:], rest) for at in range(len(names)))
    return bool(names) and fnmatchcase(names[0], pattern[0]) and _matches(names[1:], pattern[1:])
