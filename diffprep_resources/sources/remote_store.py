"""Where remote files come from: the Hub, an object store, a web server."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from diffprep_resources.sources.transfer import Wanted


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file as the listing has it. `size` in bytes, -1 where not known; `version` changes when the
    content does: a digest of it where the store has one, else its ETag, or size and time."""

    path: str
    size: int
    version: str


@dataclass(frozen=True, slots=True)
class RemoteListing:
    """All files of the store, in any order, at one `revision` (None where a store has none)."""

    files: Sequence[RemoteFile]
    revision: str | None = None


class RemoteStore(ABC):
    """Lists and opens remote files. Picklable, and holds no secret."""

    @property
    @abstractmethod
    def origin(self) -> str:
        """Which place this is; a revision that was pinned holds for its own origin only."""

    @property
    def is_offline(self) -> bool:
        """Whether the network is not to be asked: what was listed and fetched before must do."""
        return False

    @abstractmethod
    def listing(self, *, pinned: str | None) -> RemoteListing:
        """The files now, at the revision asked for; at `pinned` where none was asked for.

        Raises SourceAccessError where the place is missing, refuses, or cannot be reached.
        """

    @abstractmethod
    def check_access(self, file: RemoteFile, *, revision: str | None) -> None:
        """Raises SourceAccessError unless the file may be read; moves none of its bytes."""

    @abstractmethod
    def wanted(self, file: RemoteFile, *, revision: str | None) -> Wanted:
        """How to fetch the file."""

    @abstractmethod
    def explained(self, error: Exception) -> Exception:
        """The error for people of what fetching raised; the error itself where there is none."""
