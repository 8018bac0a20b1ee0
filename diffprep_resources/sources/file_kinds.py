"""What kind of files hold a dataset's samples: tables, tars, or loose pictures or clips; one reader
for each."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import groupby
from typing import Literal

from diffprep_resources.clips.opening import ClipSource
from diffprep_resources.sources.base import (
    FileStamp,
    Location,
    SampleFields,
    SourceSample,
)
from diffprep_resources.sources.fields import FieldKeys
from diffprep_resources.sources.huggingface import HuggingFaceSource
from diffprep_resources.sources.metadata_files import is_metadata
from diffprep_resources.sources.names import (
    Media,
    Root,
    is_clip,
    is_picture,
    split_suffix,
    suffix_label,
)
from diffprep_resources.sources.pictures import PictureReader
from diffprep_resources.sources.webdataset import WebDatasetSource

Kind = Literal["parquet", "tar", "pictures", "clips"]
# To look at a clip costs what a hundred pictures do.
FILES_PER_PART: dict[Kind, int] = {"parquet": 1, "tar": 1, "pictures": 4096, "clips": 256}


def kind_of(path: str) -> Kind | None:
    """What a file would hold by its name; None for what holds no samples."""
    suffix = split_suffix(path)[1]
    if suffix == "parquet":
        return None if is_metadata(path) else "parquet"
    if suffix == "tar":
        return "tar"
    if is_clip(suffix):
        return "clips"
    return "pictures" if is_picture(suffix) else None


def holds(path: str, media: Media) -> bool:
    """Whether a file holds samples by its name: a table, a tar, or one of these media itself."""
    return kind_of(path) in ("parquet", "tar", media)


def is_loose(path: str) -> bool:
    """Whether a source file is a picture or clip itself; a table of clips may name it anything."""
    return kind_of(path) not in ("parquet", "tar")


def main_kind(paths: Iterable[str], *, media: Media) -> Kind | None:
    """The kind that the dataset is read as: tables before tars before loose pictures or clips."""
    found = {kind_of(path) for path in paths}
    kinds: tuple[Kind, ...] = ("parquet", "tar", media)
    return next((kind for kind in kinds if kind in found), None)


def counted_by_suffix(paths: Iterable[str]) -> Counter[str]:
    """How many files of each suffix."""
    return Counter(suffix_label(split_suffix(path)[1]) for path in paths)


class KindReader:
    """Reads any of the kinds below one root, by the file's name. Picklable."""

    def __init__(self, root: Root, *, keys: FieldKeys) -> None:
        self._tables = HuggingFaceSource.below(root, keys=keys)
        self._tars = WebDatasetSource.below(root, keys=keys)
        self._pictures = PictureReader(root, keys=keys)

    def samples(self, stamps: Iterable[FileStamp]) -> Iterator[SourceSample]:
        """Every picture of the files, as a sample or a reject."""
        for kind, run in groupby(stamps, key=_stamp_kind):
            yield from self._of(kind).samples(run)

    def fields(self, stamps: Iterable[FileStamp], names: Sequence[str]) -> Iterator[SampleFields]:
        """Fields of every picture of the files."""
        for kind, run in groupby(stamps, key=_stamp_kind):
            yield from self._of(kind).fields(run, names)

    def field_names(self, stamps: Iterable[FileStamp]) -> set[str]:
        """Names of fields of the first file of each kind, or of the first pictures."""
        found: set[str] = set()
        for kind, run in groupby(stamps, key=_stamp_kind):
            found |= self._of(kind).field_names(run)
        return found

    def read_image(self, location: Location) -> bytes:
        return self._of(kind_of(location.path)).read_image(location)

    def open_media(self, location: Location) -> AbstractContextManager[ClipSource]:
        return self._of(kind_of(location.path)).open_media(location)

    def num_samples(self, path: str) -> int:
        """Samples and rejects that the file will yield, without reading pictures."""
        kind = kind_of(path)
        if kind == "parquet":
            return self._tables.num_samples(path)
        return self._tars.num_samples(path) if kind == "tar" else 1

    def other_members(self, path: str) -> dict[str, int]:
        return self._tars.other_members(path) if kind_of(path) == "tar" else {}

    def _of(self, kind: Kind | None) -> HuggingFaceSource | WebDatasetSource | PictureReader:
        if kind == "parquet":
            return self._tables
        return self._tars if kind == "tar" else self._pictures


def _stamp_kind(stamp: FileStamp) -> Kind | None:
    return kind_of(stamp.path)


def of_kind(paths: Sequence[str], kind: Kind) -> list[str]:
    """The paths of one kind, sorted."""
    return sorted(path for path in paths if kind_of(path) == kind)
