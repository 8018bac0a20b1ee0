"""What a source of captioned pictures or clips is: its files, their stamps, the samples in them.

Every path of a source is POSIX, relative to the source's root, and valid UTF-8 (names.py).
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from diffprep_resources.clips.opening import ClipSource
from diffprep_resources.errors import SampleReject


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file that is read for samples; `num_samples` is None where counting costs a scan."""

    path: str
    num_samples: int | None


@dataclass(frozen=True, slots=True)
class Listing:
    """`files` sorted by path; `other_files` counts what is not a source file, by suffix or kind."""

    files: list[SourceFile]
    other_files: dict[str, int]


@dataclass(frozen=True, slots=True)
class FileStamp:
    """Size in bytes and times in ns of a source file, and of the caption file paired with it."""

    path: str
    size: int
    mtime_ns: int
    ctime_ns: int
    caption_path: str | None = None
    caption_size: int = -1
    caption_mtime_ns: int = -1
    caption_ctime_ns: int = -1


@dataclass(frozen=True, slots=True)
class Location:
    """Where the bytes of one picture or clip are: a file, a range of a tar, or a row of a table."""

    path: str
    offset: int = -1
    length: int = -1
    row: int = -1


@dataclass(frozen=True, slots=True)
class SourceSample:
    """One picture or clip with its raw caption value, or the reason why it is left out.

    `image` is the picture's bytes, None with a `reject` and for every clip, which `open_media`
    opens where it lies. `caption` is bytes (a file's content), str, a number, a list of these, or
    None where there is none. `stated` is what a table of clips says of this one
    (clips/stated.py), which is not believed.
    """

    source_key: str
    location: Location
    image: bytes | None
    caption: object
    reject: SampleReject | None = None
    stated: Mapping[str, Any] = field(default_factory=dict)


class PlainText(str):
    """A value that its file gives no type: a cell of a CSV, the text of a tar member."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class SampleFields:
    """The fields of one picture that were asked for, in that order; None where one is missing."""

    source_key: str
    values: tuple[object, ...]


FILE_KEY = "(file)"
"""Stands for the member or row in the source_key of a reject that speaks of a whole file."""


def member_key(path: str, member: str | int) -> str:
    """The source_key of one member or row of a source file."""
    return f"{path}::{member}"


def rejected(source_key: str, location: Location, reject: SampleReject) -> SourceSample:
    """A sample left out for the reason `reject`; no traceback keeps the sample's bytes alive."""
    plain = SampleReject(reject.code, reject.message, transient=reject.transient)
    return SourceSample(source_key, location, None, None, plain)


class Source(ABC):
    """Picklable description of a source; holds settings, never the dataset."""

    files_per_part: int = 1

    @abstractmethod
    def listing(self) -> Listing:
        """Every file of the source. Raises SettingError where there is nothing to read."""

    def revision(self) -> str | None:
        """The pinned revision of a versioned source; None for plain files."""
        return None

    @abstractmethod
    def num_samples(self, path: str) -> int:
        """How many samples and rejects `samples` yields for this file, without reading pictures."""

    @abstractmethod
    def stamps(self, paths: Iterable[str]) -> Iterator[FileStamp]:
        """The stamp of each file, in the order given; files that are gone are passed over."""

    @abstractmethod
    def samples(self, stamps: Iterable[FileStamp]) -> Iterator[SourceSample]:
        """Every picture of the files, as a sample or a reject, holding one picture at a time."""

    def field_stamps(self, stamps: Iterable[FileStamp]) -> Iterator[FileStamp]:
        """The stamps, each with the file that holds its picture's fields in place of the caption
        file; unchanged where a picture's fields lie with its caption."""
        return iter(stamps)

    @abstractmethod
    def fields(self, stamps: Iterable[FileStamp], names: Sequence[str]) -> Iterator[SampleFields]:
        """Fields of every picture of the files, as `field_stamps` gives them, in source order,
        without reading pictures. A name is a column, a member's suffix, or a dotted path into JSON.
        """

    @abstractmethod
    def field_names(self, stamps: Iterable[FileStamp]) -> set[str]:
        """Names of fields that the first pictures of the files have, for messages."""

    @abstractmethod
    def read_image(self, location: Location) -> bytes:
        """The bytes of one picture, from any thread; cheap when called in source order.

        Raises SourceChangedError where the file is gone or shorter than it was.
        """

    @abstractmethod
    def open_media(self, location: Location) -> AbstractContextManager[ClipSource]:
        """One clip for a block: a file's path, or a seekable file for one caller at a time; from
        any thread. Of a clip in a file or tar no more than a buffer is in memory.

        Raises SourceChangedError where the file is gone or shorter than it was.
        """

    def are_here(self, stamps: Iterable[FileStamp]) -> bool:
        """Whether the files can be read without being fetched first; always so for local ones."""
        return True

    def other_members(self, path: str) -> dict[str, int]:
        """What a source file holds besides its pictures and their captions, counted by kind."""
        return {}
