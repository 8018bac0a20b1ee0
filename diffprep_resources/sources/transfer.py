"""One remote file fetched whole: resumed after a break, checked, then given its name."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import xxhash

from diffprep_resources.hub.polite import Patience, TransferBrokenError
from diffprep_resources.storage.atomic import commit

MAX_FILE_BYTES = 1 << 42
_BLOCK_BYTES = 1 << 20


class Digest(Protocol):
    """What hashlib makes."""

    def update(self, data: bytes, /) -> None: ...
    def hexdigest(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Body:
    """An open answer: its bytes, which begin at `start` of the file."""

    start: int
    chunks: Iterator[bytes]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be fetched. `size` is -1 where it is not known. `open_at` gives the file's bytes
    from a position on, or from 0 where the server knows no ranges. `digest`, when given, makes a
    hash whose hex digits must come to `hex_digest`."""

    what: str
    version: str
    size: int
    open_at: Callable[[int], AbstractContextManager[Body]]
    digest: Callable[[], Digest] | None = None
    hex_digest: str = ""


def fetch(wanted: Wanted, target: Path) -> None:
    """`target` holding the whole file. What a broken transfer left is gone on with.

    Raises what the server answered when it stays that way.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = _partial(target, wanted.version)
    patience = Patience(wanted.what)
    while True:
        before = _size(partial)
        try:
            _go_on(wanted, partial)
            _check(wanted, partial)
            break
        except Exception as error:
            if _size(partial) > before:
                patience.got_on()
            patience.wait(error)
    moment = version_time_s(wanted.version)
    os.utime(partial, (moment, moment))
    commit(partial, target)


def version_time_s(version: str) -> int:
    """The mtime that a fetched file is given, in seconds: a number made of its version, so that a
    file of another version is told from it without a second file to say so."""
    return xxhash.xxh3_64_intdigest(version.encode()) & 0x7FFFFFFF


def _partial(target: Path, version: str) -> Path:
    """Where the bytes of this version gather; its name has a bounded length."""
    named = f"{target.name}\0{version}".encode("utf-8", "surrogateescape")
    name = xxhash.xxh3_64_hexdigest(named)
    return target.with_name(f".{name}.part")


def _go_on(wanted: Wanted, partial: Path) -> None:
    limit = wanted.size if wanted.size >= 0 else MAX_FILE_BYTES
    with partial.open("ab") as file:
        have = file.tell()
        if wanted.size >= 0 and have == wanted.size:
            return
        if have > limit or wanted.size < 0:
            # Without a size, nothing tells a whole file from a part of it.
            file.truncate(0)
            have = 0
        with wanted.open_at(have) as body:
            if body.start != have:
                file.truncate(body.start)
                have = body.start
            for chunk in body.chunks:
                have += len(chunk)
                if have > limit:
                    file.truncate(0)
                    raise TransferBrokenError(
                        f"{wanted.what}: more than the announced {limit} bytes came"
                    )
                file.write(chunk)
        file.flush()
        os.fsync(file.fileno())


def _check(wanted: Wanted, partial: Path) -> None:
    """Raises TransferBrokenError unless size and digest are those announced."""
    size = _size(partial)
    if wanted.size >= 0 and size != wanted.size:
        raise TransferBrokenError(f"{wanted.what}: {size} of {wanted.size} bytes came")
    if wanted.digest is None:
        return
    digest = wanted.digest()
    with partial.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)
    if digest.hexdigest() != wanted.hex_digest:
        partial.unlink()
        raise TransferBrokenError(f"{wanted.what}: the bytes are not those that were announced")


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
