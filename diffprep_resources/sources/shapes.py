"""Which of a store's files are taken, by names alone: a Hub dataset, a folder, a set of tars."""

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from diffprep_resources.errors import SettingError
from diffprep_resources.sources.caption_files import CAPTION_SUFFIXES, CAPTIONS, caption_stem
from diffprep_resources.sources.file_kinds import (
    FILES_PER_PART,
    Kind,
    counted_by_suffix,
    kind_of,
    main_kind,
    of_kind,
)
from diffprep_resources.sources.hub_layout import HubChoice, files_of_split
from diffprep_resources.sources.metadata_files import is_metadata, metadata_of
from diffprep_resources.sources.names import composed, is_hidden, is_safe, split_suffix

MAX_NAME_BYTES = 255
COMPRESSED = (".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst")


@dataclass(frozen=True, slots=True)
class Chosen:
    """The files to read, sorted, with the caption or metadata file of those that have one."""

    kind: Kind
    paths: list[str]
    captions: Mapping[str, str] = field(default_factory=dict)
    other_files: Mapping[str, int] = field(default_factory=dict)

    @property
    def files_per_part(self) -> int:
        return FILES_PER_PART[self.kind]


class Shape(ABC):
    """How names in a place are to be understood. Picklable."""

    @abstractmethod
    def chosen(self, paths: Sequence[str], *, readme: Callable[[], str]) -> Chosen:
        """The files to read among all `paths`. Raises SettingError where there are none."""


@dataclass(frozen=True, slots=True)
class HubShape(Shape):
    """A dataset on the Hub, or a folder laid out like one; `where` is how errors name it."""

    where: str
    choice: HubChoice
    caption_suffixes: tuple[str, ...] = CAPTION_SUFFIXES

    def chosen(self, paths: Sequence[str], *, readme: Callable[[], str]) -> Chosen:
        plain, other = _plain(paths)
        data = [path for path in plain if kind_of(path) is not None]
        if not data:
            raise self._holds_nothing(plain, other)
        choice = self.choice
        wanted = choice.data_files is not None
        kind = main_kind(data)
        # Patterns may ask for a kind that goes after another one.
        taken = files_of_split(
            sorted(data if wanted or kind is None else of_kind(data, kind)),
            choice,
            readme=readme(),
        )
        kind = main_kind(taken) or "pictures"
        taken = of_kind(taken, kind)
        rest = sorted(set(plain) - set(taken))
        captions = (
            _picture_captions(taken, rest, self.caption_suffixes) if kind == "pictures" else {}
        )
        unused = [path for path in rest if path not in set(captions.values())]
        other += counted_by_suffix(path for path in unused if kind_of(path) != kind)
        if left := sum(kind_of(path) == kind for path in unused):
            other[f"{kind} of another split"] = left
        return Chosen(kind, taken, captions, dict(sorted((+other).items())))

    def _holds_nothing(self, plain: Sequence[str], other: Counter[str]) -> SettingError:
        script = next((path for path in sorted(plain) if re.fullmatch(r"[^/]+\.py", path)), None)
        if script is not None:
            return SettingError(
                f"source.hf_dataset: {self.where} holds a loading script ({script}), which is not "
                "run, and no parquet files, tars or pictures; take a copy in one of these, such as "
                "the Hub's own (source.hf_revision: refs/convert/parquet)"
            )
        found = dict(sorted((other + counted_by_suffix(plain)).items())) or "nothing"
        return SettingError(
            f"source.hf_dataset must hold parquet files, tars or pictures; {self.where} holds "
            f"{found}"
        )


@dataclass(frozen=True, slots=True)
class FolderShape(Shape):
    """Pictures with captions in `captions/` or beside them."""

    where: str
    caption_suffixes: tuple[str, ...] = CAPTION_SUFFIXES

    def chosen(self, paths: Sequence[str], *, readme: Callable[[], str]) -> Chosen:
        plain, other = _plain(paths)
        pictures = [path for path in plain if kind_of(path) == "pictures"]
        rest = sorted(set(plain) - set(pictures))
        captions = _picture_captions(sorted(pictures), rest, self.caption_suffixes)
        unused = set(rest) - set(captions.values())
        other += counted_by_suffix(unused)
        return Chosen("pictures", sorted(pictures), captions, dict(sorted(other.items())))


@dataclass(frozen=True, slots=True)
class TarShape(Shape):
    """Uncompressed tars."""

    where: str

    def chosen(self, paths: Sequence[str], *, readme: Callable[[], str]) -> Chosen:
        plain, other = _plain(paths)
        packed = [path for path in plain if path.lower().endswith(COMPRESSED)]
        if packed:
            raise SettingError(
                f"source.input_path must match uncompressed tars, got {packed[0]}: pictures are "
                "read at random places, which a compressed tar does not allow; decompress it"
            )
        tars = of_kind(plain, "tar")
        other += counted_by_suffix(set(plain) - set(tars))
        if not tars:
            raise SettingError(
                f"source.input_path must match at least one .tar file, got {self.where}; "
                f"found instead: {dict(other) or 'nothing'}"
            )
        return Chosen("tar", tars, {}, dict(sorted(other.items())))


def _plain(paths: Sequence[str]) -> tuple[list[str], Counter[str]]:
    """The paths that may become files here, and a count of those that may not."""
    other: Counter[str] = Counter()
    plain = []
    folders: set[str] = set()
    for path in paths:
        folder = path.rpartition("/")[0]
        while folder and folder not in folders:
            folders.add(folder)
            folder = folder.rpartition("/")[0]
    for path in paths:
        if not is_safe(path):
            other["unsafe name"] += 1
        elif any(len(name) > MAX_NAME_BYTES for name in path.encode().split(b"/")):
            other["name too long for a file"] += 1
        elif path in folders:
            other["name of a folder too"] += 1
        elif not is_hidden(path):
            plain.append(path)
    return plain, other


def _picture_captions(
    pictures: Sequence[str], others: Sequence[str], suffixes: tuple[str, ...]
) -> dict[str, str]:
    """The metadata file or caption file of each picture that has one."""
    metadata = frozenset(path for path in others if is_metadata(path))
    texts: dict[str, str] = {}
    for path in others:
        stem, suffix = split_suffix(composed(path))
        if suffix in suffixes and (
            stem not in texts
            or suffixes.index(suffix) < suffixes.index(split_suffix(texts[stem])[1])
        ):
            texts[stem] = path
    has_images = any(path.startswith("images/") for path in (*pictures, *others))
    has_captions = any(path.startswith(CAPTIONS) for path in others)
    found = {}
    for picture in pictures:
        stem = split_suffix(composed(picture))[0]
        mirrored = caption_stem(stem, has_images=has_images) if has_captions else None
        caption = metadata_of(picture, metadata) or texts.get(mirrored or "") or texts.get(stem)
        if caption is not None:
            found[picture] = caption
    return found
