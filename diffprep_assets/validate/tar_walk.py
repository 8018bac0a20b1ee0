"""The samples that a tar really holds, found as energon finds them, without reading contents."""

import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from diffprep_assets.shard.tar_writer import BLOCK, TarPart

# As in energon 7.4.1, flavors/webdataset/config.py.
MEMBER_NAME = re.compile(r"^((?:.*/|)[^.]+)[.]([^/]*)$")
SKIPPED_NAME = re.compile(r"__[^/]*__($|/)")


@dataclass(frozen=True, slots=True)
class WalkedSample:
    """One run of members under one key: where it lies in the tar, in bytes, and its parts."""

    key: str
    offset: int
    size: int
    parts: tuple[TarPart, ...]


@dataclass(frozen=True, slots=True)
class Walk:
    """A tar's samples in order, and what stopped the walk; None when it reached the end."""

    samples: tuple[WalkedSample, ...]
    problem: str | None


def walk_tar(path: Path) -> Walk:
    """Every sample of the tar, up to where it breaks. OSError when it cannot be opened at all."""
    found: list[WalkedSample] = []
    problem = None
    try:
        with path.open("rb") as file, tarfile.open(fileobj=file, mode="r:") as tar:
            found.extend(_samples(tar))
            file.seek(tar.offset)
            # tarfile takes a damaged header for the end, without a word.
            if file.read(BLOCK).strip(b"\0"):
                problem = f"damaged header at byte {tar.offset}"
    except tarfile.TarError as error:
        problem = str(error)
    if problem is not None:
        after = f" after sample {found[-1].key}" if found else ""
        problem = f"not a whole tar{after}: {problem}"
    return Walk(tuple(found), problem)


def first_sample(path: Path) -> WalkedSample | None:
    """The tar's first sample; None where it has none, or cannot be read."""
    try:
        with tarfile.open(path, mode="r:") as tar:
            return next(_samples(tar), None)
    except (OSError, tarfile.TarError):
        return None


def _samples(tar: tarfile.TarFile) -> Iterator[WalkedSample]:
    key: str | None = None
    start = 0
    parts: list[TarPart] = []
    for member in tar:
        match = MEMBER_NAME.match(member.name)
        if not member.isreg() or SKIPPED_NAME.match(member.name) or match is None:
            continue
        if match.group(1) != key:
            if key is not None:
                yield WalkedSample(key, start, member.offset - start, tuple(parts))
            key, start, parts = match.group(1), member.offset, []
        parts.append(TarPart(match.group(2), member.offset_data, member.size))
    if key is not None:
        yield WalkedSample(key, start, tar.offset - start, tuple(parts))
