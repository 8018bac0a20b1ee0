"""Fields of loose pictures: of the JSON file that goes with each, or of a metadata file above."""

import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from diffprep_resources.errors import SampleReject
from diffprep_resources.sources.base import FileStamp, PlainText, SampleFields
from diffprep_resources.sources.caption_files import CaptionFinder
from diffprep_resources.sources.fields import field_of, names_in, parse_json
from diffprep_resources.sources.local_files import MAX_CAPTION_BYTES, file_status, read_file
from diffprep_resources.sources.local_tables import LocalTables
from diffprep_resources.sources.metadata_files import (
    METADATA_NAMES,
    is_metadata,
    metadata_rows,
    named_rows,
)
from diffprep_resources.sources.names import Media, Root, composed, inside, split_suffix
from diffprep_resources.sources.video_tables import is_video_table

PICTURES_LOOKED_AT = 32


def metadata_above(root: Root, picture: str) -> str | None:
    """The nearest metadata file in or above the picture's folder."""
    folder = picture
    while folder:
        folder = folder.rpartition("/")[0]
        for name in METADATA_NAMES:
            path = f"{folder}/{name}" if folder else name
            status = file_status(inside(root, path))
            if status is not None and not stat.S_ISDIR(status.st_mode):
                return path
    return None


def local_field_stamps(
    root: bytes, stamps: Iterable[FileStamp], *, media: Media = "pictures"
) -> Iterator[FileStamp]:
    """The stamps with the file of each picture's fields: its caption file where that is JSON or
    metadata, else a JSON file where its caption may lie, else a metadata file above."""
    finder = CaptionFinder(root, suffixes=("json",), media=media)
    by_folder: dict[str, str | None] = {}
    for stamp in stamps:
        if stamp.caption_path is not None and _holds_fields(stamp.caption_path):
            yield stamp
            continue
        found = finder.find(stamp.path)
        path = found[0] if found else None
        if path is None:
            folder = stamp.path.rpartition("/")[0]
            if folder not in by_folder:
                by_folder[folder] = metadata_above(root, stamp.path)
            path = by_folder[folder]
        status = file_status(inside(root, path)) if path is not None else None
        if path is None or status is None:
            yield stamp
            continue
        yield replace(
            stamp,
            caption_path=path,
            caption_size=status.st_size,
            caption_mtime_ns=status.st_mtime_ns,
            caption_ctime_ns=status.st_ctime_ns,
        )


def _holds_fields(path: str) -> bool:
    return is_metadata(path) or is_video_table(path) or split_suffix(path)[1] == "json"


class PictureFields:
    """Reads what stamps name below a root. Keeps the rows of the metadata file read last."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._tables = LocalTables(root)
        self._rows: tuple[object, dict[str, tuple[object, ...]]] | None = None

    def fields(self, stamps: Iterable[FileStamp], names: Sequence[str]) -> Iterator[SampleFields]:
        """One for each stamp; all None where its file holds no fields or cannot be read."""
        nothing = (None,) * len(names)
        for stamp in stamps:
            path = stamp.caption_path
            values: tuple[object, ...] = nothing
            if path is not None and is_metadata(path):
                values = self._metadata(path, stamp, names).get(composed(stamp.path), nothing)
            elif path is not None and _holds_fields(path):
                parsed = self._parsed(path, stamp.path)
                values = tuple(field_of(parsed, name) for name in names)
            yield SampleFields(stamp.path, values)

    def names(self, stamps: Iterable[FileStamp]) -> set[str]:
        """Names of fields of the first pictures."""
        found: set[str] = set()
        seen: set[str] = set()
        for stamp in islice(stamps, PICTURES_LOOKED_AT):
            path = stamp.caption_path
            if path is None or path in seen or not _holds_fields(path):
                continue
            if not is_video_table(path):
                seen.add(path)
            if is_metadata(path):
                found |= self._metadata_names(path)
            else:
                found |= names_in(self._parsed(path, stamp.path))
        return found

    def _parsed(self, path: str, picture: str) -> object:
        if is_video_table(path):
            entry = self._tables.entry(path, picture)
            return entry.stated if entry else None
        try:
            data = read_file(self._root, path, max_bytes=MAX_CAPTION_BYTES)
            return parse_json(data, where=path)
        except SampleReject:
            return None

    def _metadata_names(self, path: str) -> set[str]:
        try:
            rows = islice(metadata_rows(self._root, path), PICTURES_LOOKED_AT)
            return set().union(*(names_in(_named(row)) for row in rows))
        except (SampleReject, OSError, ValueError):
            return set()

    def _metadata(
        self, path: str, stamp: FileStamp, names: Sequence[str]
    ) -> Mapping[str, tuple[object, ...]]:
        version = (path, stamp.caption_size, stamp.caption_mtime_ns, tuple(names))
        if self._rows is None or self._rows[0] != version:
            self._rows = version, self._read(path, names)
        return self._rows[1]

    def _read(self, path: str, names: Sequence[str]) -> dict[str, tuple[object, ...]]:
        """Values by picture; of several rows of one picture the first that has a value."""
        found: dict[str, tuple[object, ...]] = {}
        is_plain = path.endswith(".csv")
        try:
            for picture, row in named_rows(self._root, path):
                values = tuple(field_of(row, name) for name in names)
                if is_plain:
                    values = tuple(_plain(value) for value in values)
                before = found.get(picture)
                if before is not None:
                    pairs = zip(before, values, strict=True)
                    values = tuple(new if old is None else old for old, new in pairs)
                found[picture] = values
        except SampleReject:
            return found
        return found


def _named(row: Mapping[str, object]) -> dict[str, object]:
    """The row without the cells beyond a CSV's header, which come under None."""
    return {key: value for key, value in row.items() if isinstance(key, str)}


def _plain(value: object) -> object:
    return PlainText(value) if isinstance(value, str) and value else None
