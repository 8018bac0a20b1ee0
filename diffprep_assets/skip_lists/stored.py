"""The skip lists that a dataset keeps by name, beside those that its recipe names."""

import re
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

from diffprep_assets.curate.skip_files import SkipEntry, read_skip_list, write_stored_list
from diffprep_assets.dataset_locks import run_lock
from diffprep_assets.layout import Layout
from diffprep_assets.recipe.problems import nearest
from diffprep_resources.errors import SettingError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


@dataclass(frozen=True, slots=True)
class StoredList:
    """One list of a dataset, under the name that its rule `skip_list:<name>` has."""

    name: str
    entries: tuple[SkipEntry, ...]

    @property
    def reasons(self) -> list[str]:
        """Why, the most frequent first."""
        given = Counter(entry.reason for entry in self.entries if entry.reason)
        return [reason for reason, _ in given.most_common()]


def stored_lists(layout: Layout) -> list[StoredList]:
    """The stored lists by name."""
    return [
        StoredList(path.stem, read_skip_list(path).entries)
        for path in sorted(layout.skip_lists.glob("*.parquet"))
    ]


def list_from_file(path: Path, *, name: str | None, reason: str) -> StoredList:
    """The list in a file, under its own name or the file's. Raises SettingError for a file that is
    no list or holds nothing, and for a name that is none."""
    called = path.stem if name is None else name
    if not NAME.fullmatch(called):
        raise SettingError(
            f"a skip list's name starts with a letter or digit and holds only letters, digits and "
            f"_ . -, at most 100; got {called!r}; --name gives it another than its file has"
        )
    entries = read_skip_list(path).entries
    if not entries:
        raise SettingError(
            f"{path}: holds no entry: a source key, sample id or digest on each line, or in a "
            f"parquet file's column of such a name"
        )
    if reason:
        entries = tuple(replace(entry, reason=reason) for entry in entries)
    return StoredList(called, entries)


def store_list(layout: Layout, stored: StoredList) -> bool:
    """Whether there was a list of this name, which the new one replaces. Raises DatasetLockedError
    while a run holds the dataset."""
    with _held(layout, "skip"):
        path = layout.skip_list(stored.name)
        replaces = path.exists()
        path.parent.mkdir(parents=True, exist_ok=True)
        write_stored_list(path, stored.entries)
    return replaces


def remove_list(layout: Layout, name: str) -> StoredList:
    """The list of this name, which is no more. Raises SettingError where there is none,
    DatasetLockedError while a run holds the dataset."""
    with _held(layout, "unskip"):
        lists = {stored.name: stored for stored in stored_lists(layout)}
        if name not in lists:
            raise _unknown(layout, name, list(lists))
        layout.skip_list(name).unlink()
    return lists[name]


def _held(layout: Layout, command: str) -> AbstractContextManager[None]:
    return run_lock(layout, holder=f"diffprep {command} {layout.dataset}", log=lambda _: None)


def _unknown(layout: Layout, name: str, known: Sequence[str]) -> SettingError:
    near = nearest(name, known)
    return SettingError(
        f"{layout.dataset}: there is no stored skip list {name}"
        + (f"; did you mean {near}?" if near else f"; stored: {', '.join(known) or 'none'}")
        + "; a list that the recipe names goes by taking it out of curate.skip_lists"
    )
