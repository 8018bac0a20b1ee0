"""The source index as a remote source sees it: what was listed, and where its bytes belong."""

import os
from dataclasses import dataclass, field
from pathlib import Path

from diffprep_assets.layout import Layout
from diffprep_assets.source_index.parts import IndexedFile
from diffprep_assets.source_index.table import SourceIndex, read_index
from diffprep_resources.sources.metadata_files import is_metadata
from diffprep_resources.sources.remote_catalog import Catalog, ListedFile
from diffprep_resources.sources.remote_store import RemoteFile
from diffprep_resources.sources.video_tables import is_video_table

# Holds metadata files and tables of clips, which pictures or clips of many parts share.
SHARED = "shared"
# Holds nothing: where a file that belongs to no part would be.
NOWHERE = "none"


@dataclass(slots=True)
class _Known:
    """One reading of the index: files by path, and the part of each source and caption file."""

    index: SourceIndex
    files: dict[str, ListedFile] = field(default_factory=dict)
    found: dict[str, RemoteFile] = field(default_factory=dict)
    parts: dict[str, str] = field(default_factory=dict)

    def add(self, part: str, listed: ListedFile) -> None:
        self.files[listed.file.path] = listed
        for file in (listed.file, listed.caption):
            if file is not None:
                self.found[file.path] = file
                is_shared = is_metadata(file.path) or is_video_table(file.path)
                self.parts[file.path] = SHARED if is_shared else part


class IndexCatalog(Catalog):
    """Reads the index of `layout` when it is first needed, and again when it was replaced."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._read: tuple[tuple[int, ...], _Known] | None = None
        self._expected: dict[str, tuple[str, ListedFile]] = {}
        self._expected_revision: str | None = None

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_read": None}

    def origin(self) -> str | None:
        return self._known().index.origin

    def asked(self) -> str | None:
        return self._known().index.asked

    def revision(self) -> str | None:
        known = self._known()
        return self._expected_revision if self._expected else known.index.revision

    def files(self) -> dict[str, ListedFile]:
        return dict(self._known().files)

    def find(self, path: str) -> RemoteFile | None:
        return self._known().found.get(path)

    def expect(self, part: str, listed: ListedFile, *, revision: str | None) -> None:
        self._expected[listed.file.path] = part, listed
        self._expected_revision = revision
        self._known().add(part, listed)

    def folder_of(self, path: str) -> bytes:
        part = self._known().parts.get(path, NOWHERE)
        return os.fsencode(self._layout.downloaded_files(part))

    def lock(self, path: str) -> Path:
        part = self._known().parts.get(path, NOWHERE)
        return self._layout.partition_lock("fetch", part)

    def _known(self) -> _Known:
        path = self._layout.source_index
        try:
            status = path.stat()
            version: tuple[int, ...] = (status.st_ino, status.st_mtime_ns, status.st_size)
        except FileNotFoundError:
            version = ()
        if self._read is None or self._read[0] != version:
            if self._read is not None:
                # The index that was written since knows what was expected.
                self._expected = {}
            known = _Known(read_index(path) or SourceIndex.empty())
            for file in known.index.parts.files:
                listed = _listed(file)
                if listed is not None:
                    known.add(file.part, listed)
            self._read = version, known
        return self._read[1]


def _listed(file: IndexedFile) -> ListedFile | None:
    """The file as it was listed; None for one that is gone, or local."""
    facts = file.remote
    if facts is None or not file.present:
        return None
    caption = None
    if facts.caption_path is not None:
        size = -1 if facts.caption_size is None else facts.caption_size
        caption = RemoteFile(facts.caption_path, size, facts.caption_version or "")
    return ListedFile(RemoteFile(file.path, facts.size, facts.version), caption)
