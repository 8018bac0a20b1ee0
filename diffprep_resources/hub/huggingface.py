"""A model repository on the Hugging Face Hub, pinned to the commit that was found first."""

import logging
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from diffprep_resources.errors import ModelError
from diffprep_resources.hub.access import HubAccess, is_offline, refused, status_of
from diffprep_resources.hub.base import Repository, RepositoryKind
from diffprep_resources.hub.local import read_json_object

logger = logging.getLogger(__name__)

_NAME = re.compile(r"(\w[\w.-]*/\w[\w.-]*)(?:@(\w[\w./-]*))?", re.ASCII)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class HubRepository(Repository):
    """`repo_id` at `commit`. Picklable: a worker fetches the very files that were looked at."""

    repo_id: str
    commit: str
    file_names: tuple[str, ...]
    used_for: str
    access: HubAccess

    @property
    def reference(self) -> str:
        return self.repo_id

    @property
    def kind(self) -> RepositoryKind:
        return "hub"

    def names(self, subfolder: str) -> frozenset[str]:
        prefix = f"{subfolder}/" if subfolder else ""
        within = (name[len(prefix) :] for name in self.file_names if name.startswith(prefix))
        return frozenset(name for name in within if "/" not in name)

    def read_json(self, name: str) -> dict[str, Any]:
        shown = f"{self.repo_id}/{name}"
        if name not in self.file_names:
            raise ModelError(f"{shown}: no such file")
        return read_json_object(self.folder([name]) / name, shown=shown)

    def revision(self, subfolder: str, names: Iterable[str]) -> str:  # noqa: ARG002 (see docstring)
        """The commit: it covers every file of the repository."""
        return self.commit

    def folder(self, names: Iterable[str]) -> Path:
        """The snapshot's folder in the cache, after fetching what it lacks of the named files."""
        from huggingface_hub import snapshot_download

        wanted = sorted(names)

        def download() -> str:
            return snapshot_download(
                self.repo_id,
                revision=self.commit,
                allow_patterns=wanted,
                token=self.access.token(),
                cache_dir=self.access.cache_dir,
            )

        folder = Path(_asked(download, repo_id=self.repo_id, used_for=self.used_for))
        missing = [name for name in wanted if not (folder / name).is_file()]
        if missing:
            raise ModelError(f"{self.used_for}: {self.repo_id} lacks {', '.join(missing)}")
        return folder


def is_hub_name(reference: str) -> bool:
    """Whether `reference` reads as `owner/name` or `owner/name@revision`."""
    return _NAME.fullmatch(reference) is not None


def open_hub_repository(reference: str, *, access: HubAccess, used_for: str) -> HubRepository:
    """The repository `owner/name[@revision]`: its commit and file names; no file is fetched.

    Offline, or while the Hub cannot be reached, the commit that the cache holds. Raises ModelError
    naming `used_for`, the repository, its page and the ways to log in.
    """
    from httpx2 import HTTPError

    repo_id, wanted = _parse(reference, used_for=used_for)

    def cached(reason: Exception | None) -> HubRepository:
        commit, names = _cached_snapshot(
            repo_id, revision=wanted, access=access, used_for=used_for, reason=reason
        )
        return HubRepository(repo_id, commit, names, used_for, access)

    if is_offline():
        return cached(None)
    try:
        commit, names = _listing(repo_id, revision=wanted, token=access.token())
    except (HTTPError, OSError) as error:
        status = status_of(error)
        if status is not None and status < 500 and status not in {408, 429}:
            raise _refused(error, repo_id=repo_id, used_for=used_for) from None
        return cached(error)
    return HubRepository(repo_id, commit, names, used_for, access)


def _parse(reference: str, *, used_for: str) -> tuple[str, str | None]:
    """Repository and revision of `owner/name[@revision]`."""
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id

    match = _NAME.fullmatch(reference)
    try:
        if match is None:
            raise HFValidationError("a Hub repository is named owner/name[@revision]")
        validate_repo_id(match[1])
    except HFValidationError as error:
        raise ModelError(f"{used_for}: got {reference!r}: {error}") from error
    return match[1], match[2]


def _listing(
    repo_id: str, *, revision: str | None, token: str | None
) -> tuple[str, tuple[str, ...]]:
    from huggingface_hub import HfApi

    info = HfApi().model_info(repo_id, revision=revision, token=token)
    if info.sha is None:
        raise ModelError(f"{repo_id}: the Hub names no commit")
    return info.sha, tuple(sorted(sibling.rfilename for sibling in info.siblings or ()))


def _cached_snapshot(
    repo_id: str,
    *,
    revision: str | None,
    access: HubAccess,
    used_for: str,
    reason: Exception | None,
) -> tuple[str, tuple[str, ...]]:
    """Commit and file names of the cached snapshot. `reason`: why the Hub did not say."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        # The pattern matches no file: the snapshot is wanted as it is, also when it is partial.
        folder = Path(
            snapshot_download(
                repo_id,
                revision=revision,
                local_files_only=True,
                allow_patterns=[],
                cache_dir=access.cache_dir,
            )
        )
    except LocalEntryNotFoundError as error:
        raise _refused(reason or error, repo_id=repo_id, used_for=used_for) from None
    if reason is not None:
        detail = status_of(reason) or type(reason).__name__
        logger.warning(
            "%s: the Hub cannot be reached (%s); using the cached commit %s of %s",
            used_for,
            detail,
            folder.name,
            repo_id,
        )
    names = (path for path in folder.rglob("*") if path.is_file())
    return folder.name, tuple(sorted(path.relative_to(folder).as_posix() for path in names))


def _asked(call: Callable[[], T], *, repo_id: str, used_for: str) -> T:
    """What `call` returns. Errors of the Hub become ModelError; a full disk and the like stay."""
    from httpx2 import HTTPError
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError, OfflineModeIsEnabled

    try:
        return call()
    except (HTTPError, HfHubHTTPError, LocalEntryNotFoundError, OfflineModeIsEnabled) as error:
        raise _refused(_root_cause(error), repo_id=repo_id, used_for=used_for) from None


def _root_cause(error: Exception) -> Exception:
    """The HTTP answer behind huggingface_hub's own `not found locally`."""
    cause = error.__cause__
    return cause if isinstance(cause, Exception) and status_of(error) is None else error


def _refused(error: Exception, *, repo_id: str, used_for: str) -> ModelError:
    from huggingface_hub import constants

    page = f"{constants.ENDPOINT}/{repo_id}"
    return refused(error, repo_id=repo_id, used_for=used_for, page=page)
