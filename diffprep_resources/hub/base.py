"""What a model repository offers, wherever its files are: a local folder or the Hub."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from diffprep_resources.errors import ModelError

RepositoryKind = Literal["local", "hub"]

_PLAIN_NAME = re.compile(r"[^/\\\x00]+")


class Repository(ABC):
    """Files of one model repository. Picklable; no weights are fetched before `folder` is called.

    Names are POSIX paths relative to the repository's root; `subfolder` is "" for the root itself.
    """

    @property
    @abstractmethod
    def reference(self) -> str:
        """The repository as the recipe names it."""

    @property
    @abstractmethod
    def kind(self) -> RepositoryKind: ...

    @abstractmethod
    def names(self, subfolder: str) -> frozenset[str]:
        """Names of the files directly in `subfolder`, without it; empty when it is not there."""

    @abstractmethod
    def read_json(self, name: str) -> dict[str, Any]:
        """The object in a small JSON file. Raises ModelError when there is none."""

    @abstractmethod
    def revision(self, subfolder: str, names: Iterable[str]) -> str:
        """What changes when the named files change: a Hub commit, or a digest of their content."""

    @abstractmethod
    def missing_bytes(self, names: Iterable[str]) -> int:
        """Size of those of the named files that `folder` would fetch first; fetches none."""

    @abstractmethod
    def folder(self, names: Iterable[str]) -> Path:
        """Local folder of the repository's root in which the named files exist."""


def child(subfolder: str, name: str) -> str:
    """`name` in `subfolder`. Raises ModelError for a name that would lead elsewhere."""
    if not _PLAIN_NAME.fullmatch(name) or name in {".", ".."}:
        raise ModelError(f"a model's file name must be a plain name, got {name!r}")
    return f"{subfolder}/{name}" if subfolder else name
