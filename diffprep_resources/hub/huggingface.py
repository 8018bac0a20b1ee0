"""A model repository on the Hugging Face Hub, pinned to the commit that was found first."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from diffprep_resources.errors import ModelError
from diffprep_resources.hub.access import HubAccess, refused, status_of
from diffprep_resources.hub.base import Repository, RepositoryKind
from diffprep_resources.hub.local import read_json_object
from diffprep_resources.hub.polite import polite

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

    def revision(self, subfolder: str, names: Iterable[str]) -> str:
        """The commit: it covers every file of the repository."""
        return self.commit

    def missing_bytes(self, names: Iterable[str]) -> int:
        """Asks the Hub for each file that the cache lacks: its size, and whether it may be read."""
        from huggingface_hub import get_hf_file_metadata, hf_hub_url, try_to_load_from_cache

        size = 0
        for name in names:
            cached = try_to_load_from_cache(
                self.repo_id, name, cache_dir=self.access.cache_dir, revision=self.commit
            )
            if isinstance(cached, str):
                continue
            url = hf_hub_url(self.repo_id, name, revision=self.commit)
            found = _asked(
                lambda url=url: get_hf_file_metadata(url, token=self.access.token()),
                repo_id=self.repo_id,
                used_for=self.used_for,
            )
            size += found.size or 0
        return size

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

    Offline, or while the Hub cannot be reached, what the cache holds. Raises ModelError naming
    `used_for`, the repository, its page and the ways to log in.
    """
    from huggingface_hub import HfApi

    repo_id, wanted = _parse(reference, used_for=used_for)

    def resolve() -> str:
        # It remembers the answer in the cache, and falls back on that with a warning.
        found = HfApi().resolve_revision(
            repo_id, revision=wanted, token=access.token(), cache_dir=access.cache_dir
        )
        return found.resolved

    commit = _asked(resolve, repo_id=repo_id, used_for=used_for)
    names = _asked(
        lambda: _file_names(repo_id, commit=commit, access=access),
        repo_id=repo_id,
        used_for=used_for,
        patient=False,
    )
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


def _file_names(repo_id: str, *, commit: str, access: HubAccess) -> tuple[str, ...]:
    """Names of the commit's files: from the cache, as a commit never changes, else from the Hub."""
    from httpx2 import HTTPError
    from huggingface_hub import HfApi, get_cached_repo_tree
    from huggingface_hub.errors import CachedRepoTreeNotFoundError, OfflineModeIsEnabled

    try:
        files = get_cached_repo_tree(repo_id, revision=commit, cache_dir=access.cache_dir)
        return tuple(sorted(file.path for file in files))
    except CachedRepoTreeNotFoundError:
        pass
    try:
        info = polite(
            lambda: HfApi().model_info(repo_id, revision=commit, token=access.token()),
            what=repo_id,
        )
        return tuple(sorted(sibling.rfilename for sibling in info.siblings or ()))
    except (HTTPError, OfflineModeIsEnabled):
        names = _snapshot_names(repo_id, commit=commit, access=access)
        if names:
            return names
        raise


def _snapshot_names(repo_id: str, *, commit: str, access: HubAccess) -> tuple[str, ...]:
    """Names of the commit's files that an older huggingface_hub left in the cache, if any."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        # The pattern matches no file: the snapshot is wanted as it is, also when it is partial.
        found = snapshot_download(
            repo_id,
            revision=commit,
            local_files_only=True,
            allow_patterns=[],
            cache_dir=access.cache_dir,
        )
    except LocalEntryNotFoundError:
        return ()
    files = (path for path in Path(found).rglob("*") if path.is_file())
    return tuple(sorted(path.relative_to(found).as_posix() for path in files))


def _asked(call: Callable[[], T], *, repo_id: str, used_for: str, patient: bool = True) -> T:
    """What `call` returns, tried again if `patient`. Errors of the Hub become ModelError; a full
    disk and the like stay."""
    from httpx2 import HTTPError
    from huggingface_hub.errors import (
        LocalEntryNotFoundError,
        OfflineModeIsEnabled,
        RevisionResolutionError,
    )

    refusals = (HTTPError, LocalEntryNotFoundError, OfflineModeIsEnabled, RevisionResolutionError)
    try:
        return polite(call, what=f"{used_for}, {repo_id}") if patient else call()
    except refusals as error:
        raise _refused(_root_cause(error), repo_id=repo_id, used_for=used_for) from None


def _root_cause(error: Exception) -> Exception:
    """The HTTP answer behind huggingface_hub's own `not found locally`."""
    cause = error.__cause__
    return cause if isinstance(cause, Exception) and status_of(error) is None else error


def _refused(error: Exception, *, repo_id: str, used_for: str) -> ModelError:
    from huggingface_hub import constants

    page = f"{constants.ENDPOINT}/{repo_id}"
    return refused(error, repo_id=repo_id, used_for=used_for, page=page)
