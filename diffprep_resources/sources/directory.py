"""A folder of picture files with caption files, in `captions/` or beside the pictures."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace

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
    rejected,
)
from diffprep_resources.sources.caption_files import (
    CAPTION_SUFFIXES,
    CaptionFinder,
    caption_suffixes,
    mirrored_folder,
    picture_stem,
)
from diffprep_resources.sources.fields import FieldKeys, first_caption, parse_json
from diffprep_resources.sources.local_files import (
    MAX_CAPTION_BYTES,
    open_range,
    read_file,
    read_range,
    stamps_below,
    walk_files,
)
from diffprep_resources.sources.names import (
    composed,
    is_picture,
    path_to_bytes,
    split_suffix,
    suffix_label,
)
from diffprep_resources.sources.picture_fields import PictureFields, local_field_stamps


class DirectorySource(Source):
    """Pictures of a local folder and its subfolders; source_key is the path relative to it."""

    files_per_part = 4096

    def __init__(self, input_dir: str | os.PathLike[str], *, keys: FieldKeys | None = None) -> None:
        self._shown = os.fspath(input_dir)
        self._root = path_to_bytes(os.path.abspath(self._shown))
        self._keys = keys or FieldKeys()

    def listing(self) -> Listing:
        """Every picture file. Raises SettingError where the folder does not exist."""
        if not os.path.isdir(self._root):
            raise SettingError(
                f"source.input_dir must be a folder that exists, got {self._shown}; relative paths "
                "start at the project's folder"
            )
        other: Counter[str] = Counter()
        pictures: list[str] = []
        captions: list[str] = []
        for path in walk_files(self._root, skipped=other):
            suffix = split_suffix(path)[1]
            if is_picture(suffix):
                pictures.append(path)
            elif suffix in CAPTION_SUFFIXES:
                captions.append(path)
            else:
                other[suffix_label(suffix)] += 1
        stems = {split_suffix(composed(path))[0] for path in pictures}
        other.update(self._alone(captions, stems=stems))
        pictures.sort()
        return Listing([SourceFile(path, 1) for path in pictures], dict(sorted(other.items())))

    def _alone(self, captions: list[str], *, stems: set[str]) -> Counter[str]:
        """How many caption files of each suffix have no picture."""
        mirrored = mirrored_folder(self._root, "pictures")
        alone: Counter[str] = Counter()
        for path in map(composed, captions):
            stem, suffix = split_suffix(path)
            if stem not in stems and picture_stem(path, mirrored=mirrored) not in stems:
                alone[f".{suffix} without a picture"] += 1
        return alone

    def num_samples(self, path: str) -> int:
        """One: a file is a picture."""
        return 1

    def stamps(self, paths: Iterable[str]) -> Iterator[FileStamp]:
        """The stamp of each picture with its caption file's, in the order given."""
        finder = CaptionFinder(self._root, suffixes=caption_suffixes(self._keys))
        for stamp in stamps_below(self._root, paths):
            found = finder.find(stamp.path)
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

    def samples(self, stamps: Iterable[FileStamp]) -> Iterator[SourceSample]:
        """One sample or reject per stamp, in their order."""
        for stamp in stamps:
            location = Location(stamp.path)
            try:
                image = read_file(self._root, stamp.path)
                caption = self._caption(stamp.caption_path)
            except SampleReject as reject:
                yield rejected(stamp.path, location, reject)
            else:
                yield SourceSample(stamp.path, location, image, caption)

    def _caption(self, path: str | None) -> object:
        if path is None:
            return None
        data = read_file(self._root, path, max_bytes=MAX_CAPTION_BYTES)
        if split_suffix(path)[1] != "json":
            return data
        return first_caption(parse_json(data, where=path), self._keys.caption_keys)

    def field_stamps(self, stamps: Iterable[FileStamp]) -> Iterator[FileStamp]:
        """The stamps, each with the JSON or metadata file that goes with its picture."""
        return local_field_stamps(self._root, stamps)

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
