"""A source whose files are fetched first: listed by names, read from where `download` puts them.

Bytes lie below one folder per part, the metadata files of an image folder in one folder for all
parts. A file that is not there when it is needed is fetched again, at its listed version.
"""

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path

import xxhash

from diffprep_resources.clips.opening import ClipSource
from diffprep_resources.compute.base import Report, unheard
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
from diffprep_resources.sources.fields import FieldKeys
from diffprep_resources.sources.file_kinds import FILES_PER_PART, Kind, KindReader, main_kind
from diffprep_resources.sources.local_files import file_path, file_status
from diffprep_resources.sources.names import Media, inside
from diffprep_resources.sources.remote_catalog import Catalog, ListedFile
from diffprep_resources.sources.remote_store import RemoteFile, RemoteStore
from diffprep_resources.sources.shapes import Chosen, Shape
from diffprep_resources.sources.transfer import fetch, version_time_s
from diffprep_resources.sources.video_tables import MERGED_TABLE, RAW_PROMPTS, RAW_VIDEOS
from diffprep_resources.storage.locks import hold

LOCK_WAIT_S = 24 * 3600.0
FETCHES_AT_ONCE = 8
MAX_README_BYTES = 16 << 20
NOT_THERE = "not there"
"""The version of a clip that the source's table names and the source does not hold."""


class RemoteSource(Source):
    """Files of `store` that `shape` takes, read below the folders of `catalog`."""

    def __init__(
        self, store: RemoteStore, *, shape: Shape, catalog: Catalog, keys: FieldKeys
    ) -> None:
        self.store = store
        self._shape = shape
        self._catalog = catalog
        self._reader = KindReader(catalog, keys=keys)
        self._media: Media = keys.media
        self._listed: dict[str, ListedFile] | None = None
        self._revision: str | None = None
        self.files_per_part = 1

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_listed": None}

    @property
    def asked(self) -> str:
        """What is asked of the place; the same place may hold several splits."""
        return repr(self._shape)

    def listing(self) -> Listing:
        """The files now; offline, those that were listed last.

        Raises SourceAccessError where the place refuses or cannot be reached, SettingError where
        it holds nothing to read.
        """
        if self.store.is_offline:
            return self._listed_before()
        same_place = self._catalog.origin() == self.store.origin
        pinned = self._catalog.revision() if same_place else None
        found = self.store.listing(pinned=pinned)
        by_path = {file.path: file for file in found.files}
        chosen = self._shape.chosen(
            sorted(by_path), read=lambda path: self._whole(by_path[path], found.revision)
        )
        if chosen.table == RAW_PROMPTS:
            raise SettingError(
                f"{self.store.origin}: {RAW_VIDEOS} and {RAW_PROMPTS} are read of a folder on this "
                "machine only; fetch it and run `diffprep video-index` there, which writes "
                f"{MERGED_TABLE}"
            )
        there = next((by_path[path] for path in chosen.paths if path in by_path), None)
        if there is not None:
            self.store.check_access(there, revision=found.revision)
        self._listed = _with_captions(chosen, by_path)
        self._revision = found.revision
        self.files_per_part = chosen.files_per_part
        files = [SourceFile(path, _num_samples(chosen.kind)) for path in chosen.paths]
        return Listing(files, dict(chosen.other_files))

    def _listed_before(self) -> Listing:
        catalog = self._catalog
        if (catalog.origin(), catalog.asked()) != (self.store.origin, self.asked):
            raise SettingError(
                f"{self.store.origin}: HF_HUB_OFFLINE is set, and these files of it were never "
                "listed; unset it once to list and fetch them, or name a local folder"
            )
        self._listed = catalog.files()
        self._revision = catalog.revision()
        kind = main_kind(self._listed, media=self._media) or self._media
        self.files_per_part = FILES_PER_PART[kind]
        count = _num_samples(kind)
        return Listing([SourceFile(path, count) for path in sorted(self._listed)], {})

    def _whole(self, file: RemoteFile, revision: str | None) -> bytes:
        """The dataset's card, which may name its splits, or a table of clips."""
        if file.path == "README.md" and file.size > MAX_README_BYTES:
            return b""
        if self._catalog.find(file.path) == file and self._is_here(file.path):
            return file_path(self._catalog, file.path).read_bytes()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "file"
            self._fetch(file, path, revision=revision)
            return path.read_bytes()

    def revision(self) -> str | None:
        return self._catalog.revision() if self._listed is None else self._revision

    def version_of(self, path: str) -> str | None:
        """The version of a file as it was listed; None for one that was not."""
        listed = self._files().get(path)
        return listed.file.version if listed else None

    def listed_file(self, path: str) -> ListedFile:
        """The file as it was listed. Raises KeyError for one that was not."""
        return self._files()[path]

    def _files(self) -> dict[str, ListedFile]:
        return self._catalog.files() if self._listed is None else self._listed

    def num_samples(self, path: str) -> int:
        """By the file's bytes, which are fetched for that."""
        self._bring(path)
        return self._reader.num_samples(path)

    def num_samples_in(self, part: str, path: str) -> int:
        """As `num_samples`, for a file that was listed just now and will be of this part."""
        self._catalog.expect(part, self.listed_file(path), revision=self._revision)
        return self.num_samples(path)

    def stamps(self, paths: Iterable[str]) -> Iterator[FileStamp]:
        """The stamp of each file as it was listed: a version in place of times."""
        files = self._files()
        for path in paths:
            listed = files.get(path)
            if listed is None:
                continue
            caption = listed.caption
            yield FileStamp(
                path,
                listed.file.size,
                _number(listed.file.version),
                0,
                caption_path=caption.path if caption else None,
                caption_size=caption.size if caption else -1,
                caption_mtime_ns=_number(caption.version) if caption else -1,
                caption_ctime_ns=0 if caption else -1,
            )

    def samples(self, stamps: Iterable[FileStamp]) -> Iterator[SourceSample]:
        """Every picture of the files, fetching those that are not here."""
        for stamp in stamps:
            self.bring([stamp], report=unheard)
            yield from self._reader.samples([stamp])

    def fields(self, stamps: Iterable[FileStamp], names: Sequence[str]) -> Iterator[SampleFields]:
        """Fields of every picture, of its caption or metadata file where it is a file of its own;
        fetches those that are not here."""
        for stamp in stamps:
            self.bring([stamp], report=unheard)
            yield from self._reader.fields([stamp], names)

    def field_names(self, stamps: Iterable[FileStamp]) -> set[str]:
        return self._reader.field_names(stamps)

    def read_image(self, location: Location) -> bytes:
        self._bring(location.path)
        return self._reader.read_image(location)

    def open_media(self, location: Location) -> AbstractContextManager[ClipSource]:
        self._bring(location.path)
        return self._reader.open_media(location)

    def other_members(self, path: str) -> dict[str, int]:
        return self._reader.other_members(path)

    def are_here(self, stamps: Iterable[FileStamp]) -> bool:
        """Whether the bytes of all files are here."""
        return all(self._is_here(path) for stamp in stamps for path in _paths_of(stamp))

    def bring(self, stamps: Sequence[FileStamp], *, report: Report) -> None:
        """Fetch the files and their caption files, those that are not here; reports each stamp
        once its file is here."""
        by_lock: dict[Path, dict[str, RemoteFile]] = {}
        awaited: set[str] = set()
        for stamp in stamps:
            for path in _paths_of(stamp):
                file = self._catalog.find(path)
                if file is not None and not self._is_here(path):
                    by_lock.setdefault(self._catalog.lock(path), {})[path] = file
                    awaited.add(path)
            if stamp.path not in awaited:
                report(1)
        main_files = {stamp.path for stamp in stamps}
        for lock, files in by_lock.items():
            for path in self._fetch_all(lock, files):
                if path in main_files:
                    report(1)

    def _is_here(self, path: str) -> bool:
        file = self._catalog.find(path)
        if file is not None and file.version == NOT_THERE:
            return True
        try:
            status = file_status(inside(self._catalog, path))
        except SampleReject:
            return False
        if status is None or file is None:
            return status is not None
        is_version = int(status.st_mtime) == version_time_s(file.version)
        return is_version and file.size in (-1, status.st_size)

    def _bring(self, path: str) -> None:
        file = self._catalog.find(path)
        if file is not None and not self._is_here(path):
            list(self._fetch_all(self._catalog.lock(path), {path: file}))

    def _fetch_all(self, lock: Path, files: Mapping[str, RemoteFile]) -> Iterator[str]:
        """Fetch files that one lock covers, several at a time; their paths as they are here."""
        revision = self._catalog.revision()

        def fetch_one(path: str) -> str:
            if not self._is_here(path):
                target = Path(inside(self._catalog, path).decode("utf-8", "surrogateescape"))
                self._fetch(files[path], target, revision=revision)
            return path

        with (
            hold(lock, holder=f"a run fetching from {self.store.origin}", wait_s=LOCK_WAIT_S),
            ThreadPoolExecutor(FETCHES_AT_ONCE, thread_name_prefix="fetch") as pool,
        ):
            yield from pool.map(fetch_one, files)

    def _fetch(self, file: RemoteFile, target: Path, *, revision: str | None) -> None:
        try:
            fetch(self.store.wanted(file, revision=revision), target)
        except Exception as error:
            explained = self.store.explained(error)
            if explained is error:
                raise
            raise explained from None


def _with_captions(chosen: Chosen, by_path: dict[str, RemoteFile]) -> dict[str, ListedFile]:
    captions = chosen.captions
    return {
        path: ListedFile(
            by_path.get(path) or RemoteFile(path, 0, NOT_THERE),
            by_path[captions[path]] if path in captions else None,
        )
        for path in chosen.paths
    }


def _paths_of(stamp: FileStamp) -> list[str]:
    return [path for path in (stamp.path, stamp.caption_path) if path is not None]


def _num_samples(kind: Kind) -> int | None:
    return None if kind in ("parquet", "tar") else 1


def _number(version: str) -> int:
    """A version as the number that a stamp holds, 63 bits of its digest."""
    return xxhash.xxh3_64_intdigest(version.encode()) >> 1
