"""Loose pictures or clips below a root, as stamped, with captions in files of their own, in a
metadata file or in a table of clips."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from diffprep_resources.clips.opening import ClipSource
from diffprep_resources.errors import SampleReject
from diffprep_resources.sources.base import (
    FileStamp,
    Location,
    SampleFields,
    SourceSample,
    rejected,
)
from diffprep_resources.sources.fields import FieldKeys, first_caption, parse_json
from diffprep_resources.sources.local_files import (
    MAX_CAPTION_BYTES,
    check_file,
    open_range,
    read_file,
    read_range,
)
from diffprep_resources.sources.local_tables import LocalTables
from diffprep_resources.sources.metadata_files import captions_of, is_metadata, metadata_reject
from diffprep_resources.sources.names import Root, composed, split_suffix
from diffprep_resources.sources.picture_fields import PictureFields
from diffprep_resources.sources.video_tables import is_video_table


class PictureReader:
    """Reads what stamps name. Keeps the captions of the metadata file read last. Picklable."""

    def __init__(self, root: Root, *, keys: FieldKeys) -> None:
        self._root = root
        self._keys = keys
        self._tables = LocalTables(root)
        self._captions: tuple[object, dict[str, object] | SampleReject] | None = None

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_captions": None}

    def samples(self, stamps: Iterable[FileStamp]) -> Iterator[SourceSample]:
        """One sample or reject per stamp, in their order."""
        for stamp in stamps:
            location = Location(stamp.path)
            try:
                if self._keys.media == "clips":
                    yield self._clip(stamp, location)
                else:
                    image = read_file(self._root, stamp.path)
                    yield SourceSample(stamp.path, location, image, self._caption(stamp))
            except SampleReject as reject:
                yield rejected(stamp.path, location, reject)

    def _clip(self, stamp: FileStamp, location: Location) -> SourceSample:
        """The clip, whose bytes stay where they are."""
        caption, stated = self._described(stamp)
        try:
            check_file(self._root, stamp.path)
        except SampleReject as reject:
            if reject.code != "source_missing" or not is_video_table(stamp.caption_path or ""):
                raise
            message = f"{stamp.caption_path} names {stamp.path}, which is not there"
            raise SampleReject("source_missing", message, transient=True) from reject
        return SourceSample(stamp.path, location, None, caption, stated=stated)

    def _described(self, stamp: FileStamp) -> tuple[object, Mapping[str, Any]]:
        """The clip's caption, and what a table of clips says besides."""
        path = stamp.caption_path
        if path is None or not is_video_table(path):
            return self._caption(stamp), {}
        entry = self._tables.entry(path, stamp.path)
        if entry is None:
            return None, {}
        if entry.reject is not None:
            raise entry.reject
        keys = self._keys.caption_keys
        chosen = first_caption(entry.stated, keys) if self._keys.chosen_captions else None
        return entry.caption if chosen is None else chosen, entry.stated

    def fields(self, stamps: Iterable[FileStamp], names: Sequence[str]) -> Iterator[SampleFields]:
        """Fields of the JSON or metadata file of each stamp."""
        return PictureFields(self._root).fields(stamps, names)

    def field_names(self, stamps: Iterable[FileStamp]) -> set[str]:
        """Names in the JSON or metadata files of the first stamps."""
        return PictureFields(self._root).names(stamps)

    def read_image(self, location: Location) -> bytes:
        """The picture file's bytes."""
        return read_range(self._root, location)

    def open_media(self, location: Location) -> AbstractContextManager[ClipSource]:
        """The clip's bytes where they lie."""
        return open_range(self._root, location)

    def _caption(self, stamp: FileStamp) -> object:
        path = stamp.caption_path
        if path is None:
            return None
        if is_metadata(path):
            return self._metadata(path, stamp).get(composed(stamp.path))
        data = read_file(self._root, path, max_bytes=MAX_CAPTION_BYTES)
        if split_suffix(path)[1] != "json":
            return data
        return first_caption(parse_json(data, where=path), self._keys.caption_keys)

    def _metadata(self, path: str, stamp: FileStamp) -> dict[str, object]:
        version = (path, stamp.caption_size, stamp.caption_mtime_ns, stamp.caption_ctime_ns)
        if self._captions is None or self._captions[0] != version:
            self._captions = version, self._read_metadata(path)
        found = self._captions[1]
        if isinstance(found, SampleReject):
            raise SampleReject(found.code, found.message, transient=found.transient)
        return found

    def _read_metadata(self, path: str) -> dict[str, object] | SampleReject:
        try:
            return captions_of(self._root, path, self._keys.caption_keys)
        except SampleReject as reject:
            return metadata_reject(path, reject)
