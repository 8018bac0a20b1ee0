"""Digests of large files, remembered by path, size and times: a second look reads nothing."""

import json
import logging
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import xxhash

from diffprep_resources.storage import atomic

logger = logging.getLogger(__name__)

_BLOCK_BYTES = 8 << 20


def file_digest(path: Path) -> str:
    """xxh3_128 of the file's bytes, 32 hex characters."""
    digest = xxhash.xxh3_128()
    with path.open("rb", buffering=0) as file:
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


@dataclass(slots=True)
class DigestCache:
    """Digests by absolute path; an entry holds as long as size, mtime_ns and ctime_ns do.

    `path` is a JSON file, replaced as a whole; None remembers nothing between processes. A cache
    that cannot be read is an empty one, and one that cannot be written costs only time.
    """

    path: Path | None
    _entries: dict[str, list[int | str]] = field(default_factory=dict)

    def digests(self, files: Iterable[Path]) -> list[str]:
        """The digest of each file, in order."""
        self._entries = self._read()
        fresh = {}
        found = [self._digest(path, fresh=fresh) for path in files]
        if fresh:
            self._write(fresh)
        return found

    def _digest(self, path: Path, *, fresh: dict[str, list[int | str]]) -> str:
        key = os.path.abspath(path)
        before = _stamp(path)
        entry = self._entries.get(key)
        if entry is not None and entry[:3] == before:
            return str(entry[3])
        digest = file_digest(path)
        if _stamp(path) == before:
            fresh[key] = [*before, digest]
        return digest

    def _read(self) -> dict[str, list[int | str]]:
        if self.path is None:
            return {}
        try:
            content = json.loads(self.path.read_text("utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            logger.warning(
                "%s cannot be read (%s); model files are digested again", self.path, error
            )
            return {}
        if not isinstance(content, dict):
            return {}
        return {key: entry for key, entry in content.items() if _is_entry(entry)}

    def _write(self, fresh: dict[str, list[int | str]]) -> None:
        if self.path is None:
            return
        entries = self._read() | fresh
        text = json.dumps(entries, sort_keys=True, indent=1)
        try:
            atomic.write_bytes(self.path, text.encode())
        except OSError as error:
            logger.warning("%s cannot be written (%s)", self.path, error)


def _stamp(path: Path) -> list[int | str]:
    status = path.stat()
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns]


def _is_entry(entry: object) -> bool:
    if not isinstance(entry, list) or len(entry) != 4:
        return False
    return all(isinstance(number, int) for number in entry[:3]) and isinstance(entry[3], str)
