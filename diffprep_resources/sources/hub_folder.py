"""A local folder laid out like a Hub dataset: tables, tars, or pictures with metadata files."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

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
from diffprep_resources.sources.file_kinds import KindReader, kind_of
from diffprep_resources.sources.hub_layout import HubChoice
from diffprep_resources.sources.huggingface import HuggingFaceSource
from diffprep_resources.sources.local_files import file_status, read_file, stamps_below, walk_files
from diffprep_resources.sources.names import inside, path_to_bytes
from diffprep_resources.sources.picture_fields import local_field_stamps, metadata_above
from diffprep_resources.sources.shapes import Chosen, HubShape


class HubFolderSource(Source):
    """What the Hub's conventions say is the split, in a folder on this machine."""

    def __init__(self, folder: str, *, choice: HubChoice, keys: FieldKeys) -> None:
        self._shown = folder
        self._root = path_to_bytes(os.path.abspath(folder))
        self._keys = keys
        self._shape = HubShape(folder, choice, caption_suffixes(keys))
        self._tables = HuggingFaceSource(folder, choice=choice, keys=keys)
        self._reader = KindReader(self._root, keys=keys)
        self.files_per_part = 1

    def listing(self) -> Listing:
        """The split's files. Raises SettingError where there are none."""
        skipped: Counter[str] = Counter()
        chosen = self.chosen(skipped)
        self.files_per_part = chosen.files_per_part
        if chosen.kind == "parquet":
            return self._tables.listing()
        count = 1 if chosen.kind == "pictures" else None
        other = dict(sorted((Counter(chosen.other_files) + skipped).items()))
        return Listing([SourceFile(path, count) for path in chosen.paths], other)

    def chosen(self, skipped: Counter[str]) -> Chosen:
        """The split's files with their caption or metadata files, by names alone; `skipped` counts
        what is passed over. Raises SettingError where there are none."""
        if not os.path.isdir(self._root):
            raise SettingError(
                "source.hf_dataset must be a local folder that exists, or owner/name on the Hub; "
                f"got {self._shown}"
            )
        paths = sorted(walk_files(self._root, skipped=skipped))
        return self._shape.chosen(paths, readme=self._readme)

    def _readme(self) -> str:
        try:
            return read_file(self._root, "README.md", max_bytes=16 << 20).decode("utf-8", "replace")
        except SampleReject:
            return ""

    def num_samples(self, path: str) -> int:
        return self._reader.num_samples(path)

    def stamps(self, paths: Iterable[str]) -> Iterator[FileStamp]:
        """The stamp of each file; of a picture also that of its metadata or caption file."""
        finder = CaptionFinder(self._root, suffixes=caption_suffixes(self._keys))
        for stamp in stamps_below(self._root, paths):
            if kind_of(stamp.path) != "pictures":
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

    def _metadata(self, picture: str) -> tuple[str, os.stat_result] | None:
        """The nearest metadata file in or above the picture's folder."""
        path = metadata_above(self._root, picture)
        status = None if path is None else file_status(inside(self._root, path))
        return None if path is None or status is None else (path, status)

    def field_stamps(self, stamps: Iterable[FileStamp]) -> Iterator[FileStamp]:
        """The stamps, those of pictures with the JSON or metadata file that goes with each."""
        for kind, group in groupby(stamps, key=lambda stamp: kind_of(stamp.path)):
            run = list(group)
            yield from local_field_stamps(self._root, run) if kind == "pictures" else run

    def fields(self, stamps: Iterable[FileStamp], names: Sequence[str]) -> Iterator[SampleFields]:
        return self._reader.fields(stamps, names)

    def field_names(self, stamps: Iterable[FileStamp]) -> set[str]:
        return self._reader.field_names(stamps)

    def samples(self, stamps: Iterable[FileStamp]) -> Iterator[SourceSample]:
        return self._reader.samples(stamps)

    def read_image(self, location: Location) -> bytes:
        return self._reader.read_image(location)

    def other_members(self, path: str) -> dict[str, int]:
        return self._reader.other_members(path)
