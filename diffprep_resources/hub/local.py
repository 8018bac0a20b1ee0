"""A model repository that is a folder on this machine. Nothing here ever calls the Hub."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xxhash

from diffprep_resources.errors import ModelError
from diffprep_resources.hub.base import Repository, RepositoryKind, child
from diffprep_resources.hub.digests import DigestCache


@dataclass(frozen=True, slots=True)
class LocalRepository(Repository):
    """The folder `root`, named `given` in the recipe; `digest_cache` remembers digests."""

    root: Path
    given: str
    digest_cache: Path | None = None

    @property
    def reference(self) -> str:
        return self.given

    @property
    def kind(self) -> RepositoryKind:
        return "local"

    def names(self, subfolder: str) -> frozenset[str]:
        folder = self.root / subfolder
        if not folder.is_dir():
            return frozenset()
        return frozenset(path.name for path in folder.iterdir() if path.is_file())

    def read_json(self, name: str) -> dict[str, Any]:
        path = self.root / name
        return read_json_object(path, shown=str(path))

    def revision(self, subfolder: str, names: Iterable[str]) -> str:
        """xxh3_128 over names and contents: equal files give equal digests, wherever they lie."""
        ordered = sorted(names)
        paths = [self.root / child(subfolder, name) for name in ordered]
        try:
            digests = DigestCache(self.digest_cache).digests(paths)
        except OSError as error:
            raise ModelError(
                f"{self.root / subfolder}: cannot read a model file: {error}"
            ) from error
        content = json.dumps(list(zip(ordered, digests, strict=True)))
        return xxhash.xxh3_128_hexdigest(content.encode())

    def missing_bytes(self, names: Iterable[str]) -> int:
        """0: what is not in the folder is never fetched."""
        return 0

    def folder(self, names: Iterable[str]) -> Path:
        missing = sorted(name for name in names if not (self.root / name).is_file())
        if missing:
            raise ModelError(
                f"{self.root}: missing model files: {', '.join(missing)}; copy the folder whole"
            )
        return self.root

    def beside(self) -> "LocalRepository":
        """The folder that holds this one."""
        parent = self.root.parent
        return LocalRepository(parent, given=str(parent), digest_cache=self.digest_cache)


def read_json_object(path: Path, *, shown: str) -> dict[str, Any]:
    """The JSON object in `path`; ModelError, naming it as `shown`, when there is none."""
    try:
        content = json.loads(path.read_text("utf-8"))
    except FileNotFoundError as error:
        raise ModelError(f"{shown}: no such file") from error
    except (OSError, ValueError) as error:
        raise ModelError(f"{shown}: cannot be read as JSON: {error}") from error
    if not isinstance(content, dict):
        raise ModelError(f"{shown}: must hold a JSON object, got {type(content).__name__}")
    return content
