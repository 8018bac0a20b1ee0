"""A dataset repository on the Hugging Face Hub as a store of files, pinned to one commit."""

import hashlib
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from diffprep_resources.errors import SettingError, SourceAccessError
from diffprep_resources.hub.access import HubAccess, is_offline, refused
from diffprep_resources.hub.huggingface import is_hub_name
from diffprep_resources.hub.polite import polite
from diffprep_resources.sources.remote_store import RemoteFile, RemoteListing, RemoteStore
from diffprep_resources.sources.transfer import Body, Wanted

T = TypeVar("T")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_TIMEOUT_S = 60.0
_GIT = "git-"
_SHA256 = "sha256-"


@dataclass(frozen=True, slots=True)
class HubDatasetStore(RemoteStore):
    """`owner/name`. `wanted_revision` None: the commit that was found first, for good; a commit is
    that one; a branch or tag is what it is at each listing."""

    repo_id: str
    wanted_revision: str | None
    access: HubAccess

    @property
    def origin(self) -> str:
        return f"hf://datasets/{self.repo_id}"

    @property
    def is_offline(self) -> bool:
        return is_offline()

    def listing(self, *, pinned: str | None) -> RemoteListing:
        from huggingface_hub import HfApi, RepoFile

        commit = self._commit(pinned)

        def tree() -> list[RemoteFile]:
            entries = HfApi().list_repo_tree(
                self.repo_id,
                recursive=True,
                revision=commit,
                repo_type="dataset",
                token=self.access.token(),
            )
            return [
                RemoteFile(entry.path, entry.size, _version(entry))
                for entry in entries
                if isinstance(entry, RepoFile)
            ]

        return RemoteListing(self._asked(tree, what="the list of files"), commit)

    def _commit(self, pinned: str | None) -> str:
        from huggingface_hub import HfApi

        if self.wanted_revision is None and pinned is not None:
            return pinned
        if self.wanted_revision is not None and _COMMIT.fullmatch(self.wanted_revision):
            return self.wanted_revision

        def resolve() -> str:
            info = HfApi().dataset_info(
                self.repo_id, revision=self.wanted_revision, token=self.access.token()
            )
            if info.sha is None:
                raise SourceAccessError(
                    f"{self.origin}: the Hub names no commit of it; try again later"
                )
            return info.sha

        return self._asked(resolve, what="the commit")

    def check_access(self, file: RemoteFile, *, revision: str | None) -> None:
        from huggingface_hub import get_hf_file_metadata

        def head() -> None:
            get_hf_file_metadata(self._url(file, revision), token=self.access.token())

        self._asked(head, what=file.path)

    def wanted(self, file: RemoteFile, *, revision: str | None) -> Wanted:
        kind, _, hex_digest = file.version.partition("-")
        return Wanted(
            what=f"{self.origin}/{file.path}",
            version=file.version,
            size=file.size,
            open_at=lambda start: self._open(self._url(file, revision), start),
            digest=hashlib.sha256 if kind == "sha256" else lambda: _git_blob(file.size),
            hex_digest=hex_digest,
        )

    def explained(self, error: Exception) -> Exception:
        from httpx2 import HTTPError

        return self._refused(error) if isinstance(error, HTTPError | ConnectionError) else error

    def _url(self, file: RemoteFile, revision: str | None) -> str:
        from huggingface_hub import hf_hub_url

        return hf_hub_url(self.repo_id, file.path, repo_type="dataset", revision=revision)

    @contextmanager
    def _open(self, url: str, start: int) -> Iterator[Body]:
        """The file's bytes from `start`. Storage servers that it redirects to get no token."""
        from huggingface_hub.utils import build_hf_headers, get_session, hf_raise_for_status

        # Bytes as they are: a compressed answer has other ranges and another length.
        headers = build_hf_headers(token=self.access.token()) | {"Accept-Encoding": "identity"}
        if start:
            headers["Range"] = f"bytes={start}-"
        with get_session().stream("GET", url, headers=headers, timeout=_TIMEOUT_S) as response:
            hf_raise_for_status(response)
            begins = start if response.status_code == 206 else 0
            yield Body(begins, response.iter_bytes())

    def _asked(self, call: Callable[[], T], *, what: str) -> T:
        from httpx2 import HTTPError
        from huggingface_hub.errors import OfflineModeIsEnabled

        try:
            return polite(call, what=f"{self.origin}, {what}")
        except (HTTPError, OfflineModeIsEnabled) as error:
            raise self._refused(error) from None

    def _refused(self, error: Exception) -> SourceAccessError:
        from huggingface_hub import constants

        page = f"{constants.ENDPOINT}/datasets/{self.repo_id}"
        found = refused(
            error, repo_id=self.repo_id, used_for="source (source.hf_dataset)", page=page
        )
        return SourceAccessError(str(found))


def hub_dataset(name: str, *, revision: str | None, access: HubAccess) -> HubDatasetStore:
    """The store `owner/name`. Raises SettingError for what is no such name."""
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id

    try:
        if not is_hub_name(name) or "@" in name:
            raise HFValidationError("a dataset on the Hub is named owner/name")
        validate_repo_id(name)
    except HFValidationError as error:
        raise SettingError(
            f"source.hf_dataset must be a local folder that exists, or owner/name on the Hub; got "
            f"{name!r}: {error}"
        ) from error
    return HubDatasetStore(name, revision, access)


def _version(entry: object) -> str:
    lfs = getattr(entry, "lfs", None)
    return f"{_SHA256}{lfs.sha256}" if lfs is not None else f"{_GIT}{getattr(entry, 'blob_id', '')}"


def _git_blob(size: int) -> "hashlib._Hash":
    """git's digest of a file of this size: over a short header, then the bytes."""
    return hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
