"""Opens what a recipe names as a model: a local folder, or a repository on the Hugging Face Hub."""

import os.path
from dataclasses import dataclass
from pathlib import Path

from diffprep_resources.errors import ModelError
from diffprep_resources.hub.access import HubAccess
from diffprep_resources.hub.base import Repository
from diffprep_resources.hub.huggingface import is_hub_name, open_hub_repository
from diffprep_resources.hub.local import LocalRepository


@dataclass(frozen=True, slots=True)
class ModelHub:
    """Where models come from. Picklable, and holds no token.

    `digest_cache`: JSON file of local files' digests. `base_folder`: where relative folders start,
    the working folder by default. `cache_dir`: huggingface_hub's own cache by default.
    """

    digest_cache: Path | None = None
    token_file: Path | None = None
    cache_dir: Path | None = None
    base_folder: Path | None = None

    def local_folder(self, reference: str) -> Path | None:
        """The existing folder that `reference` names; it goes before a Hub name."""
        folder = self._folder(reference)
        return folder if folder.is_dir() else None

    def repository(self, reference: str, *, used_for: str) -> Repository:
        """The repository that `reference` names; `used_for` says in errors what it is needed for.

        Raises ModelError when it is neither, or when the Hub refuses.
        """
        folder = self.local_folder(reference)
        if folder is not None:
            return LocalRepository(folder, given=reference, digest_cache=self.digest_cache)
        if _is_path(reference) or not is_hub_name(reference):
            raise ModelError(
                f"{used_for}: {reference!r} is neither an existing folder "
                f"({self._folder(reference)}) nor the name of a Hub repository (owner/name)"
            )
        access = HubAccess(token_file=self.token_file, cache_dir=self.cache_dir)
        return open_hub_repository(reference, access=access, used_for=used_for)

    def _folder(self, reference: str) -> Path:
        start = (self.base_folder or Path()).absolute()
        return start / os.path.expanduser(reference)


def _is_path(reference: str) -> bool:
    return reference.startswith(("/", ".", "~"))
