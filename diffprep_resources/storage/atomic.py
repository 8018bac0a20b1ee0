"""Files that appear whole or not at all: written aside, synced, renamed, the folder synced."""

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

TEMPORARY_PREFIX = ".writing-"


def temporary_beside(path: Path) -> Path:
    """A fresh hidden name in the same folder: a rename to `path` never crosses filesystems."""
    return path.with_name(f"{TEMPORARY_PREFIX}{path.name}-{uuid4().hex[:8]}")


@contextlib.contextmanager
def replace_file(path: Path, *, before: Callable[[], None] | None = None) -> Iterator[BinaryIO]:
    """A binary file (read and write) that takes the name `path` when the block ends well.

    When the block raises, the temporary file is removed and what stood at `path` stays. `before`
    is called when the content is durable, just before it takes the name.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_beside(path)
    try:
        with _named_in_errors(path):
            with temporary.open("w+b") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            if before is not None:
                before()
            commit(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def _named_in_errors(path: Path) -> Iterator[None]:
    """A write that fails does not say what it was writing; here it does."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def write_bytes(path: Path, data: bytes) -> None:
    """`path` holding `data`, replaced as a whole."""
    with replace_file(path) as file:
        file.write(data)


def commit(temporary: Path, path: Path) -> None:
    """Give a finished, synced temporary file its name, durably."""
    temporary.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def link_or_copy(source: Path, target: Path) -> None:
    """`target` with the content of `source`: a hard link, or a copy where links cannot be made."""
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_beside(target)
    try:
        try:
            os.link(source, temporary)
        except OSError:
            with (
                _named_in_errors(target),
                source.open("rb") as read,
                temporary.open("wb") as write,
            ):
                shutil.copyfileobj(read, write, 1 << 20)
                write.flush()
                os.fsync(write.fileno())
        commit(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def remove_leftovers(folder: Path) -> None:
    """Remove temporary files that a killed process left in `folder`."""
    if folder.is_dir():
        for path in folder.glob(f"{TEMPORARY_PREFIX}*"):
            path.unlink(missing_ok=True)
