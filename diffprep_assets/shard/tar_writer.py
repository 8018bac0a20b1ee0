"""A tar of samples with the same bytes for the same samples, and the index rows that readers need.

Energon, webdataset and `datasets` all pair members by the name up to the first dot, so a key holds
neither dot nor slash and the members of a sample are adjacent.
"""

import tarfile
from dataclasses import dataclass
from typing import BinaryIO

import xxhash

BLOCK = tarfile.BLOCKSIZE
RECORD = tarfile.RECORDSIZE
LONGEST_NAME = 100  # of a USTAR header without a prefix; energon's own index assumes one block


@dataclass(frozen=True, slots=True)
class TarSample:
    """One sample: its key and its members in order, each a name without the key, and bytes."""

    key: str
    members: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class TarPart:
    """Where one member's content lies in the tar, in bytes."""

    name: str
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class TarRow:
    """Where one sample lies in the tar, headers and padding included, and that range's digest."""

    key: str
    offset: int
    size: int
    digest: str
    parts: tuple[TarPart, ...]


@dataclass(frozen=True, slots=True)
class TarSummary:
    """A finished tar: whole size, where the last sample ends, digest of all bytes."""

    size_bytes: int
    end_offset: int
    digest: str


class TarWriter:
    """Writes samples to an open binary file as they come; holds one at a time. USTAR, mtime 0."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._offset = 0
        self._digest = xxhash.xxh3_128()
        self._keys: set[str] = set()

    def add(self, sample: TarSample) -> TarRow:
        """The index row of `sample`, whose bytes are now written. ValueError for an unfit name."""
        self._refuse_bad_names(sample)
        self._keys.add(sample.key)
        start = self._offset
        digest = xxhash.xxh3_128()
        parts = []
        for name, content in sample.members:
            self._write(tar_header(f"{sample.key}.{name}", size=len(content)), digest)
            parts.append(TarPart(name, self._offset, len(content)))
            self._write(content, digest)
            self._write(bytes(-len(content) % BLOCK), digest)
        return TarRow(
            sample.key, start, self._offset - start, digest.hexdigest(), parts=tuple(parts)
        )

    def close(self) -> TarSummary:
        """Size and digest, with the end marker written. Leaves the file open to its opener."""
        end = self._offset
        padded = -(-(end + 2 * BLOCK) // RECORD) * RECORD
        self._write(bytes(padded - end))
        return TarSummary(self._offset, end, self._digest.hexdigest())

    def _write(self, data: bytes, sample_digest: "xxhash.xxh3_128 | None" = None) -> None:
        self._file.write(data)
        self._digest.update(data)
        if sample_digest is not None:
            sample_digest.update(data)
        self._offset += len(data)

    def _refuse_bad_names(self, sample: TarSample) -> None:
        key = sample.key
        if not key or "." in key or "/" in key or not key.isascii():
            raise ValueError(f"a tar key must be ASCII without dot and slash, got {key!r}")
        if key in self._keys:
            raise ValueError(f"a tar key must be new in its tar, got {key!r} again")
        names = [name for name, _ in sample.members]
        if not names or len(set(names)) != len(names) or any("/" in name for name in names):
            raise ValueError(
                f"sample {key}: member names must differ and hold no slash, got {names}"
            )


def tar_header(name: str, *, size: int) -> bytes:
    """The 512 bytes before a regular file's content; nobody's file, from 1970."""
    if len(name) >= LONGEST_NAME:
        raise ValueError(f"a tar member's name must be under {LONGEST_NAME} bytes, got {name!r}")
    info = tarfile.TarInfo(name)
    info.size = size
    info.mode = 0o644
    return info.tobuf(tarfile.USTAR_FORMAT, "ascii", "strict")
