"""Bytes, stamps and names of files on a mounted filesystem."""

import errno
import os
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import BinaryIO

from diffprep_resources.clips.file_slice import file_slice
from diffprep_resources.clips.opening import ClipSource
from diffprep_resources.errors import SampleReject, SourceAccessError, SourceChangedError
from diffprep_resources.sources.base import FileStamp, Location
from diffprep_resources.sources.names import Root, inside, name_from_bytes

MAX_IMAGE_BYTES = 1 << 30
MAX_CAPTION_BYTES = 16 << 20


def walk_files(root: bytes, *, skipped: Counter[str]) -> Iterator[str]:
    """Relative path of every file below `root` that is not hidden, in no given order.

    Links are followed, broken ones to files included. A folder is listed once, under its own name
    before any link's; one that holds `root` never, so a loop of links ends. `skipped` counts what
    is passed over, hidden names apart. Raises SourceAccessError for a folder that may not be read.
    """
    seen = _ancestors(root)
    folders = [b""]
    linked: list[bytes] = []
    while folders or linked:
        if not folders:
            linked.sort(reverse=True)
            folders.append(linked.pop())
        folder = folders.pop()
        identity = _identity(os.path.join(root, folder))
        if identity in seen:
            skipped["linked folder listed already"] += 1
            continue
        seen.add(identity)
        prefix = folder + b"/" if folder else b""
        with _entries(os.path.join(root, folder)) as entries:
            for entry in entries:
                if entry.name.startswith(b"."):
                    continue
                if _is(entry.is_dir):
                    (linked if entry.is_symlink() else folders).append(prefix + entry.name)
                elif _is(entry.is_file) or (entry.is_symlink() and not os.path.exists(entry.path)):
                    yield name_from_bytes(prefix + entry.name)
                else:
                    skipped["not a regular file"] += 1


def _entries(folder: bytes) -> AbstractContextManager[Iterator[os.DirEntry[bytes]]]:
    try:
        return os.scandir(folder)
    except PermissionError as error:
        shown = name_from_bytes(folder)
        raise SourceAccessError(
            f"{shown} cannot be listed: {error.strerror}; make the folder readable, or move it out "
            "of the source"
        ) from error


def _is(question: Callable[[], bool]) -> bool:
    """The answer of a directory entry; False for a link that leads to itself."""
    try:
        return question()
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        return False


def _identity(path: bytes) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_dev, status.st_ino


def _ancestors(root: bytes) -> set[tuple[int, int]]:
    found: set[tuple[int, int]] = set()
    path = os.path.realpath(root)
    while path != os.path.dirname(path):
        path = os.path.dirname(path)
        found.add(_identity(path))
    return found


def file_status(path: bytes) -> os.stat_result | None:
    """Status of the file, or of a broken link itself; None where there is neither."""
    try:
        return os.stat(path)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            raise
    try:
        return os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def stamps_below(root: Root, paths: Iterable[str]) -> Iterator[FileStamp]:
    """The stamp of each file below `root`; those that are gone are passed over."""
    for path in paths:
        status = file_status(inside(root, path))
        if status is not None:
            yield FileStamp(path, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def read_file(root: Root, path: str, *, max_bytes: int = MAX_IMAGE_BYTES) -> bytes:
    """The whole file `path` below `root`.

    Raises SampleReject: unsafe_name, source_missing (transient), unreadable_file, or too_large
    above `max_bytes`. An error of the disk or network itself propagates.
    """
    with _regular_file(root, path) as (file, status):
        data = file.read(max_bytes + 1) if status.st_size <= max_bytes else None
    if data is None or len(data) > max_bytes:
        message = f"{path} holds more than {max_bytes} bytes, the most that is read"
        raise SampleReject("too_large", message)
    return data


def check_file(root: Root, path: str) -> None:
    """Raises SampleReject, as `read_file`, where the file cannot be opened; reads none of it."""
    with _regular_file(root, path):
        pass


@contextmanager
def _regular_file(root: Root, path: str) -> Iterator[tuple[BinaryIO, os.stat_result]]:
    try:
        with open(inside(root, path), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise SampleReject("unreadable_file", f"{path} is not a regular file")
            yield file, status
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP):
            raise SampleReject("source_missing", f"{path} is gone", transient=True) from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EISDIR, errno.ENOTDIR):
            message = f"{path}: {error.strerror}"
            raise SampleReject("unreadable_file", message, transient=True) from error
        raise


def read_range(root: Root, location: Location) -> bytes:
    """`location.length` bytes from `location.offset`, or the whole file where it has no range.

    Raises SourceChangedError where they are no longer there.
    """
    if location.offset < 0:
        try:
            return read_file(root, location.path)
        except SampleReject as reject:
            raise _changed(location, reject.message) from reject
    try:
        descriptor = os.open(inside(root, location.path), os.O_RDONLY)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise _changed(location, "the file is gone") from error
    try:
        data = read_at(descriptor, offset=location.offset, length=location.length)
    finally:
        os.close(descriptor)
    if len(data) < location.length:
        raise _changed(location, f"it ends before byte {location.offset + location.length}")
    return data


def file_path(root: Root, path: str) -> Path:
    """The file `path` below `root`, for what takes a Path. Raises SampleReject (unsafe_name)."""
    return Path(os.fsdecode(inside(root, path)))


@contextmanager
def open_range(root: Root, location: Location) -> Iterator[ClipSource]:
    """The file of `location`, or its range of a file, opened where it lies.

    Raises SourceChangedError where it is no longer there.
    """
    path = file_path(root, location.path)
    if not path.is_file():
        raise _changed(location, "the file is gone")
    if location.offset < 0:
        yield path
        return
    if path.stat().st_size < location.offset + location.length:
        raise _changed(location, f"it ends before byte {location.offset + location.length}")
    with file_slice(path, offset=location.offset, length=location.length) as clip:
        yield clip


def read_at(descriptor: int, *, offset: int, length: int) -> bytes:
    """Up to `length` bytes from `offset`; fewer only at the end of the file."""
    data = os.pread(descriptor, length, offset)
    if len(data) == length or not data:
        return data
    chunks = [data]
    got = len(data)
    while got < length:
        chunk = os.pread(descriptor, length - got, offset + got)
        if not chunk:
            break
        chunks.append(chunk)
        got += len(chunk)
    return b"".join(chunks)


def _changed(location: Location, why: str) -> SourceChangedError:
    return SourceChangedError(
        f"source changed since bucket: {location.path} ({why}); run download and bucket "
        "again, as `diffprep run` does"
    )
