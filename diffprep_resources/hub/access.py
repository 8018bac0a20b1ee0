"""Access to the Hugging Face Hub: the token, and what to tell someone whom the Hub refuses."""

import stat
from dataclasses import dataclass
from pathlib import Path

from diffprep_resources.errors import ModelError, SettingError

LOG_IN = (
    "log in in one of three ways: a token file (auth.hf_token_file in the recipe, or "
    "--hf-token-file), the environment variable HF_TOKEN, or `hf auth login`"
)


@dataclass(frozen=True, slots=True)
class HubAccess:
    """How the Hub is reached. Holds the token's file, never the token. Picklable.

    Without `token_file`, huggingface_hub looks at HF_TOKEN, then at its own login. `cache_dir` None
    is huggingface_hub's own cache.
    """

    token_file: Path | None = None
    cache_dir: Path | None = None

    def token(self) -> str | None:
        """The token in `token_file`, read anew each time; None lets huggingface_hub choose."""
        return None if self.token_file is None else read_token(self.token_file)


def read_token(path: Path) -> str:
    """The token in a file that nobody but its owner may read (mode 600 or 400).

    Raises SettingError, which never quotes the content.
    """
    where = f"hf_token_file {path}"
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        content = path.read_bytes()
    except OSError as error:
        raise SettingError(f"{where}: cannot be read: {error.strerror}") from None
    if mode & 0o177:
        raise SettingError(
            f"{where}: must have mode 600 or 400, got {mode:03o}; run: chmod 600 {path}"
        )
    words = content.split()
    if len(words) != 1 or not words[0].isascii() or not words[0].decode("ascii").isprintable():
        raise SettingError(f"{where}: must hold one token on one line, and nothing else")
    return words[0].decode("ascii")


def refused(error: Exception, *, repo_id: str, used_for: str, page: str) -> ModelError:
    """The ModelError for what huggingface_hub raised.

    It quotes the kind of error and the HTTP status only: messages of HTTP libraries may hold header
    values or signed addresses.
    """
    from huggingface_hub import errors

    head = f"{used_for}: cannot read {repo_id} on the Hugging Face Hub"
    status = status_of(error)
    if isinstance(error, errors.GatedRepoError):
        return ModelError(
            f"{head}: access is gated ({status}). Accept its licence at {page}, then {LOG_IN}"
        )
    if isinstance(error, errors.RevisionNotFoundError):
        return ModelError(f"{head}: it has no such revision ({status}); see {page}")
    if isinstance(error, errors.RepositoryNotFoundError) or status in {401, 403}:
        return ModelError(
            f"{head}: it does not exist, is private, or the token is not accepted ({status}), and "
            f"no folder here has that name. Its licence and access are at {page}; then {LOG_IN}"
        )
    if isinstance(error, errors.EntryNotFoundError) and status is not None:
        return ModelError(f"{head}: a file is missing there ({status}); see {page}")
    if is_offline():
        return ModelError(
            f"{head}: HF_HUB_OFFLINE is set and the files are not in the local cache; see {page}. "
            "Unset it once to fetch them, or name a local folder"
        )
    detail = type(error).__name__ if status is None else f"HTTP {status}"
    return ModelError(
        f"{head}: the Hub cannot be reached ({detail}) and the files are not in the local cache. "
        f"Try again later, or name a local folder; see {page}. If it is gated, {LOG_IN}"
    )


def status_of(error: Exception) -> int | None:
    """HTTP status of an error from huggingface_hub, None when there was no answer."""
    return getattr(getattr(error, "response", None), "status_code", None)


def is_offline() -> bool:
    """Whether huggingface_hub was told to stay off the network (HF_HUB_OFFLINE)."""
    from huggingface_hub import constants

    return constants.is_offline_mode()
