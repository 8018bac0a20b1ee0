"""A clip in the middle of a larger file (a tar's member), read where it lies."""

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from diffprep_resources.errors import SourceChangedError


class _FileSlice(io.RawIOBase):
    """Bytes `offset` to `offset + length` of an open file, as a file of their own."""

    def __init__(self, file: BinaryIO, *, offset: int, length: int) -> None:
        self._file = file
        self._offset = offset
        self._length = length
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._length}[whence]
        self._at = max(0, start + offset)
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: memoryview, /) -> int:  # pyright: ignore[reportIncompatibleMethodOverride] "WriteableBuffer" is not assignable to "memoryview"
        count = max(0, min(len(buffer), self._length - self._at))
        if not count:
            return 0
        self._file.seek(self._offset + self._at)
        read = self._file.readinto(memoryview(buffer)[:count])  # pyright: ignore[reportAttributeAccessIssue] "readinto" is on every binary file
        self._at += read
        return read


@contextmanager
def file_slice(path: Path, *, offset: int, length: int) -> Iterator[BinaryIO]:
    """The slice as a seekable binary file, of which no more than a buffer is in memory.

    Raises SourceChangedError where the file ends before the slice does.
    """
    with path.open("rb") as file:
        if file.seek(0, os.SEEK_END) < offset + length:
            raise SourceChangedError(
                f"{path} is shorter than it was: no {length} bytes at {offset}; run download again"
            )
        yield io.BufferedReader(_FileSlice(file, offset=offset, length=length))
