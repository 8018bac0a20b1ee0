"""What was listed of a remote source, and where its bytes belong on this machine."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path

from diffprep_resources.sources.names import FileRoot
from diffprep_resources.sources.remote_store import RemoteFile


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file of the source and the caption or metadata file that goes with it."""

    file: RemoteFile
    caption: RemoteFile | None = None


class Catalog(FileRoot, ABC):
    """What was listed last, and where its bytes belong. Picklable; reads what it needs."""

    @abstractmethod
    def origin(self) -> str | None:
        """The place that was listed; None when nothing was."""

    @abstractmethod
    def asked(self) -> str | None:
        """What was asked of the place."""

    @abstractmethod
    def revision(self) -> str | None:
        """The revision that was listed."""

    @abstractmethod
    def files(self) -> dict[str, ListedFile]:
        """Every file that is still there, by path."""

    @abstractmethod
    def find(self, path: str) -> RemoteFile | None:
        """The source or caption file of this path."""

    @abstractmethod
    def expect(self, part: str, listed: ListedFile, *, revision: str | None) -> None:
        """Take a file for one of this part's, before the list on disk says so."""

    @abstractmethod
    def lock(self, path: str) -> Path:
        """The lock to hold while the file is fetched."""
