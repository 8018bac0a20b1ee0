"""A local folder laid out like a Hub dataset: parquet files, tars, or loose pictures or clips with
metadata files; and a plain folder of clips."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import groupby

from diffprep_resources.clips.opening import ClipSource
from diffprep_resources.errors import SampleReject, SettingError
from diffprep_resources.sources.base import (
    FileStamp,
    Listing,
    Location,
    SampleFields,
    Source,
    SourceFile,
    SourceSample,
)
from diffprep_resources.sources.caption_files import CaptionFinder, caption_suffixes
from diffprep_resources.sources.fields import FieldKeys
from diffprep_resources.sources.file_kinds import FILES_PER_PART, KindReader, is_loose, kind_of
from diffprep_resources.sources.hub_layout import HubChoice
from diffprep_resources.sources.huggingface import HuggingFaceSource
from diffprep_resources.sources.local_files import file_status, read_file, stamps_below, walk_files
from diffprep_resources.sources.local_tables import LocalTables
from diffprep_resources.sources.names import inside, path_to_bytes
from diffprep_resources.sources.picture_fields import local_field_stamps, metadata_above
from diffprep_resources.sources.shapes import Chosen, FolderShape, HubShape, Shape
from diffprep_resources.sources.video_tables import is_video_table


class HubFolderSource(Source):
    """What the Hub's conventions say is the split, in a folder on this machine."""

    _allowed = "source.hf_dataset must be a local folder that exists, or owner/name on the Hub"

    def __init__(self, folder: str, *, choice: HubChoice, keys: FieldKeys) -> None:
        self._shown = folder
        self._root = path_to_bytes(os.path.abspath(folder))
        self._keys = keys
        self._shape: Shape = HubShape(folder, choice, caption_suffixes(keys), keys.media)
        self._tables = HuggingFaceSource(folder, choice=choice, keys=keys)
        self._reader = KindReader(self._root, keys=keys)
        self._videos = LocalTables(self._root)
        self.files_per_part = 1

    def listing(self) -> Listing:
        """The split's files. Raises SettingError where there are none."""
        skipped: Counter[str] = Counter()
        chosen = self.chosen(skipped)
        self.files_per_part = chosen.files_per_part
        if chosen.kind == "parquet":
            return self._tables.listing()
        count = None if chosen.kind == "tar" else 1
        other = dict(sorted((Counter(chosen.other_files) + skipped).items()))
        return Listing([SourceFile(path, count) for path in chosen.paths], other)

    def chosen(self, skipped: Counter[str]) -> Chosen:
        """The split's files with their caption or metadata files, by names alone; `skipped` counts
        what is passed over. Raises SettingError where there are none."""
        if not os.path.isdir(self._root):
            raise SettingError(f"{self._allowed}; got {self._shown}")
        paths = sorted(walk_files(self._root, skipped=skipped))
        return self._shape.chosen(paths, read=self._read)

    def _read(self, path: str) -> bytes:
        if is_video_table(path):
            return self._videos.read(path)
        try:
            return read_file(self._root, path, max_bytes=16 << 20)
        except SampleReject:
            return b""

    def num_samples(self, path: str) -> int:
        return self._reader.num_samples(path)

    def stamps(self, paths: Iterable[str]) -> Iterator[FileStamp]:
        """The stamp of each file, of loose ones with that of the metadata or caption file."""
        table = self._videos.table() if self._keys.media == "clips" else None
        media, suffixes = self._keys.media, caption_suffixes(self._keys)
        finder = CaptionFinder(self._root, suffixes=suffixes, media=media)
        found = stamps_below(self._root, paths) if table is None else self._named(paths, table)
        for stamp in found:
            if stamp.caption_path is not None or not is_loose(stamp.path):
                yield stamp
                continue
            found = self._metadata(stamp.path) or finder.find(stamp.path)
            if found is None:
                yield stamp
                continue
            path, status = found
            yield replace(
                stamp,
                caption_path=path,
                caption_size=status.st_size,
                caption_mtime_ns=status.st_mtime_ns,
                caption_ctime_ns=status.st_ctime_ns,
            )

    def _named(self, paths: Iterable[str], table: str) -> Iterator[FileStamp]:
        """Stamps of clips with their table's; also of clips that it names and that are gone."""
        for path in paths:
            stamp = next(stamps_below(self._root, [path]), None)
            if stamp is None and self._videos.entry(table, path) is not None:
                stamp = FileStamp(path, 0, 0, 0)
            if stamp is not None:
                yield self._videos.stamped(stamp, table) if is_loose(path) else stamp

    def _metadata(self, picture: str) -> tuple[str, os.stat_result] | None:
        """The nearest metadata file in or above the picture's folder."""
        path = metadata_above(self._root, picture)
        status = None if path is None else file_status(inside(self._root, path))
        return None if path is None or status is None else (path, status)

    def field_stamps(self, stamps: Iterable[FileStamp]) -> Iterator[FileStamp]:
        """The stamps, those of pictures with the JSON or metadata file that goes with each."""
        for kind, group in groupby(stamps, key=lambda stamp: kind_of(stamp.path)):
            run = list(group)
            loose = local_field_stamps(self._root, run, media=self._keys.media)
            yield from run if kind in ("parquet", "tar") else loose

    def fields(self, stamps: Iterable[FileStamp], names: Sequence[str]) -> Iterator[SampleFields]:
        return self._reader.fields(stamps, names)

    def field_names(self, stamps: Iterable[FileStamp]) -> set[str]:
        return self._reader.field_names(stamps)

    def samples(self, stamps: Iterable[FileStamp]) -> Iterator[SourceSample]:
        return self._reader.samples(stamps)

    def read_image(self, location: Location) -> bytes:
        return self._reader.read_image(location)

    def open_media(self, location: Location) -> AbstractContextManager[ClipSource]:
        return self._reader.open_media(location)

    def other_members(self, path: str) -> dict[str, int]:
        return self._reader.other_members(path)


class ClipFolderSource(HubFolderSource):
    """Clips of a local folder and its subfolders: with a table, or with captions beside them."""

    _allowed = "source.input_dir must be a folder that exists (relative to the project's folder)"

    def __init__(self, input_dir: str, *, keys: FieldKeys) -> None:
        super().__init__(input_dir, choice=HubChoice(), keys=keys)
        self._shape = FolderShape(input_dir, caption_suffixes(keys), keys.media)
        self.files_per_part = FILES_PER_PART["clips"]
