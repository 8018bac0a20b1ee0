"""A table of clips in the folder that it speaks of, read once for each version of its files."""

import os
from collections.abc import Mapping
from dataclasses import replace

from diffprep_resources.errors import SourceAccessError
from diffprep_resources.sources.base import FileStamp
from diffprep_resources.sources.local_files import file_status
from diffprep_resources.sources.names import Root, composed, inside
from diffprep_resources.sources.video_tables import (
    FILES_OF,
    VideoEntry,
    entries_by_path,
    table_entries,
)


class LocalTables:
    """The entries of tables below a root. Keeps those of the last one. Picklable."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._last: tuple[object, dict[str, VideoEntry]] | None = None

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_last": None}

    def table(self) -> str | None:
        """The table that is there, named by the file of its captions."""
        return next((name for name in FILES_OF if None not in self._statuses(name)), None)

    def read(self, name: str) -> bytes:
        """A file of the table. Raises SourceAccessError where it is not there."""
        try:
            with open(inside(self._root, name), "rb") as file:
                return file.read()
        except FileNotFoundError as error:
            raise SourceAccessError(f"there is no {name} in the source's folder") from error

    def entries(self, table: str) -> Mapping[str, VideoEntry]:
        """The table's entries by composed path. Raises SourceAccessError."""
        version = (table, *self._statuses(table))
        if self._last is None or self._last[0] != version:
            self._last = version, entries_by_path(table_entries(table, self.read))
        return self._last[1]

    def entry(self, table: str, path: str) -> VideoEntry | None:
        """What the table says of one clip."""
        return self.entries(table).get(composed(path))

    def stamped(self, stamp: FileStamp, table: str) -> FileStamp:
        """The stamp of a clip with that of its table: of all its files together."""
        statuses = [status for status in self._statuses(table) if status is not None]
        return replace(
            stamp,
            caption_path=table,
            caption_size=sum(size for size, _, _ in statuses),
            caption_mtime_ns=sum(mtime for _, mtime, _ in statuses),
            caption_ctime_ns=sum(ctime for _, _, ctime in statuses),
        )

    def _statuses(self, table: str) -> list[tuple[int, int, int] | None]:
        """Size and times of each file of the table; None for one that is not there."""
        return [_numbers(file_status(inside(self._root, name))) for name in FILES_OF[table]]


def _numbers(status: os.stat_result | None) -> tuple[int, int, int] | None:
    return status and (status.st_size, status.st_mtime_ns, status.st_ctime_ns)
