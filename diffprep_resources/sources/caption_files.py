"""Which caption file belongs to a picture or clip of a folder.

`captions/` comes before captions beside the pictures. A picture under `images/`, or a clip under
`videos/`, has its caption at the same place under `captions/`; without that folder, any does. The
stem is the name without its last suffix, so `aaa.bbb.jpg` goes with `aaa.bbb.txt`.
"""

import os
import stat

from diffprep_resources.sources.fields import FieldKeys
from diffprep_resources.sources.names import (
    Media,
    composed,
    inside,
    name_from_bytes,
    split_suffix,
)

CAPTION_SUFFIXES = ("txt", "caption", "json")
MIRRORED: dict[Media, str] = {"pictures": "images/", "clips": "videos/"}
"""The folder whose layout `captions/` has, where it is there."""
CAPTIONS = "captions/"


def caption_suffixes(keys: FieldKeys) -> tuple[str, ...]:
    """Caption suffixes in the order tried; json first where the recipe asks for a path in it."""
    if keys.chosen_captions and keys.caption_keys[0].startswith("json."):
        return ("json", "txt", "caption")
    return CAPTION_SUFFIXES


def caption_stem(picture_stem: str, *, mirrored: str) -> str | None:
    """Where under `captions/` the caption of this picture would be, without suffix, or None.

    `mirrored` is the folder whose layout `captions/` has, with its slash, or '' for the root.
    """
    if not picture_stem.startswith(mirrored):
        return None
    return CAPTIONS + picture_stem.removeprefix(mirrored)


def picture_stem(caption: str, *, mirrored: str) -> str | None:
    """The stem of the picture that a caption file under `captions/` would belong to, or None."""
    if not caption.startswith(CAPTIONS):
        return None
    stem = split_suffix(caption)[0].removeprefix(CAPTIONS)
    return mirrored + stem


def mirrored_folder(root: bytes, media: Media) -> str:
    """The folder below `root` whose layout `captions/` has, with its slash; '' for the root."""
    folder = MIRRORED[media]
    return folder if os.path.isdir(root + b"/" + folder.encode()) else ""


class CaptionFinder:
    """Finds captions for pictures that come folder by folder; keeps the names of one folder."""

    def __init__(
        self, root: bytes, *, suffixes: tuple[str, ...], media: Media = "pictures"
    ) -> None:
        self._root = root
        self._suffixes = suffixes
        self._mirrored = mirrored_folder(root, media)
        self._has_captions = os.path.isdir(root + b"/captions")
        self._folders: dict[str, dict[str, str]] = {}

    def find(self, picture: str) -> tuple[str, os.stat_result] | None:
        """The caption file's relative path and status, or None."""
        stem = split_suffix(picture)[0]
        stems = [stem]
        if self._has_captions:
            paired = caption_stem(stem, mirrored=self._mirrored)
            stems = [paired, stem] if paired else stems
        for candidate in stems:
            found = self._with_suffix(candidate)
            if found is not None:
                return found
        return None

    def _with_suffix(self, stem: str) -> tuple[str, os.stat_result] | None:
        path = f"{stem}.{self._suffixes[0]}"
        status = self._status(path)
        if status is not None:
            return path, status
        folder, slash, name = stem.rpartition("/")
        known = self._names(folder).get(composed(name))
        if known is None:
            return None
        path = f"{folder}{slash}{known}"
        status = self._status(path)
        return None if status is None else (path, status)

    def _status(self, path: str) -> os.stat_result | None:
        try:
            status = os.stat(inside(self._root, path))
        except OSError:
            return None
        return status if stat.S_ISREG(status.st_mode) else None

    def _names(self, folder: str) -> dict[str, str]:
        """Caption file of each composed stem in a folder; the earlier suffix wins, then lower
        case."""
        if folder in self._folders:
            return self._folders[folder]
        best: dict[str, tuple[int, bool, str]] = {}
        path = inside(self._root, folder) if folder else self._root
        names = os.listdir(path) if os.path.isdir(path) else []
        for name in map(name_from_bytes, names):
            stem, suffix = split_suffix(composed(name))
            if suffix in self._suffixes:
                rank = (self._suffixes.index(suffix), not name.endswith(suffix), name)
                best[stem] = min(best.get(stem, rank), rank)
        while len(self._folders) > 1:
            self._folders.pop(next(iter(self._folders)))
        self._folders[folder] = {stem: rank[2] for stem, rank in best.items()}
        return self._folders[folder]
