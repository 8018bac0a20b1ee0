"""Locks that die with their holder: `flock` on a file whose text says who holds it.

A killed process loses its flock at once, reaped or not, so a held lock means a live holder.
A second descriptor in the same process conflicts with the first: keep one lock and pass it on.
"""

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from diffprep_resources.errors import DatasetLockedError

POLL_S = 0.2


@contextlib.contextmanager
def hold(
    path: Path,
    *,
    holder: str,
    shared: bool = False,
    wait_s: float = 0.0,
    waiting: Callable[[str], None] | None = None,
) -> Iterator[None]:
    """Hold the lock at `path` for the block; `holder` is what others are told meanwhile.

    Waits up to `wait_s` seconds, calling `waiting` once with the holder's words. An exclusive
    lock's file is gone afterwards. Raises DatasetLockedError, naming the holder, when the lock is
    not free by then.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    deadline = time.monotonic() + wait_s
    told = False
    while (file := _taken(path, kind)) is None:
        by = holder_of(path)
        if time.monotonic() >= deadline:
            waited = f" after waiting {wait_s:.0f} s" if wait_s else ""
            raise DatasetLockedError(
                f"{path.parent.parent.name} is in use{waited}: held by {by}; wait until that ends"
            )
        if waiting and not told:
            waiting(f"waiting for {by}")
            told = True
        time.sleep(POLL_S)
    with file:
        _write_holder(file, holder)
        try:
            yield
        finally:
            if not shared:
                path.unlink(missing_ok=True)


def is_held(path: Path) -> bool:
    """Whether any live process holds the lock at `path`."""
    try:
        file = path.open("r+")
    except FileNotFoundError:
        return False
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


def holder_of(path: Path) -> str:
    """The words of the process that took the lock last, or 'another process'."""
    try:
        record = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return "another process"
    return f"{record['holder']} (process {record['pid']}, since {record['since']})"


def _taken(path: Path, kind: int) -> IO[str] | None:
    """The locked file, or None while another holds it. A file that was unlinked between opening
    and locking is no lock any more: try the new one."""
    while True:
        file = path.open("a+")
        try:
            fcntl.flock(file, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return None
        if _is_at(path, file):
            return file
        file.close()


def _is_at(path: Path, file: IO[str]) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def _write_holder(file: IO[str], holder: str) -> None:
    since = time.strftime("%Y-%m-%d %H:%M:%S")
    text = json.dumps({"holder": holder, "pid": os.getpid(), "since": since})
    try:
        os.ftruncate(file.fileno(), 0)
        os.write(file.fileno(), text.encode())
    except OSError as error:
        # What fails here does not say where.
        error.filename = file.name
        raise
