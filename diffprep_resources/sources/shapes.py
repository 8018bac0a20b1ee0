"""Which of a store's files are taken: a Hub dataset, a folder, a set of tars.

By names alone, but for a table of clips, which may name what is not there.
"""

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from diffprep_resources.errors import SettingError
from diffprep_resources.sources.caption_files import (
    CAPTION_SUFFIXES,
    CAPTIONS,
    MIRRORED,
    caption_stem,
)
from diffprep_resources.sources.file_kinds import (
    FILES_PER_PART,
    Kind,
    counted_by_suffix,
    holds,
    kind_of,
    main_kind,
    of_kind,
)
from diffprep_resources.sources.hub_layout import HubChoice, files_of_split
from diffprep_resources.sources.metadata_files import is_metadata, metadata_of
from diffprep_resources.sources.names import Media, composed, is_hidden, is_safe, split_suffix
from diffprep_resources.sources.video_tables import (
    FILES_OF,
    VIDEOS,
    ReadFile,
    entries_by_path,
    table_among,
    table_entries,
)

MAX_NAME_BYTES = 255
COMPRESSED = (".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst")


@dataclass(frozen=True, slots=True)
class Chosen:
    """The files to read, sorted, with the caption or metadata file of those that have one.

    With a `table` of clips these are what it names too, whether they are there or not.
    """

    kind: Kind
    paths: list[str]
    captions: Mapping[str, str] = field(default_factory=dict)
    other_files: Mapping[str, int] = field(default_factory=dict)
    table: str | None = None

    @property
    def files_per_part(self) -> int:
        return FILES_PER_PART[self.kind]


class Shape(ABC):
    """How names in a place are to be understood. Picklable."""

    @abstractmethod
    def chosen(self, paths: Sequence[str], *, read: ReadFile) -> Chosen:
        """The files to read among all `paths`; `read` gives the bytes of one.

        Raises SettingError where there are none, SourceAccessError for a table that cannot be used.
        """


@dataclass(frozen=True, slots=True)
class HubShape(Shape):
    """A dataset on the Hub, or a folder laid out like one; `where` is how errors name it."""

    where: str
    choice: HubChoice
    caption_suffixes: tuple[str, ...] = CAPTION_SUFFIXES
    media: Media = "pictures"

    def chosen(self, paths: Sequence[str], *, read: ReadFile) -> Chosen:
        plain, other = _plain(paths)
        choice = self.choice
        wanted = choice.data_files is not None
        table = table_among(plain) if self.media == "clips" else None
        if table is not None and not wanted:
            self._check_no_split(table)
            return _of_table(table, plain, other, read=read)
        data = [path for path in plain if holds(path, self.media)]
        if not data:
            raise self._holds_nothing(plain, other)
        kind = main_kind(data, media=self.media)
        # Patterns may ask for a kind that goes after another one.
        taken = files_of_split(
            sorted(data if wanted or kind is None else of_kind(data, kind)),
            choice,
            readme=read("README.md").decode("utf-8", "replace") if "README.md" in paths else "",
        )
        kind = main_kind(taken, media=self.media) or self.media
        taken = of_kind(taken, kind)
        rest = sorted(set(plain) - set(taken))
        is_loose = kind == self.media
        captions = {}
        if is_loose and table is not None:
            captions = dict.fromkeys(taken, table)
        elif is_loose:
            captions = _captions(taken, rest, self.caption_suffixes, self.media)
        unused = sorted(set(rest).difference(captions.values()))
        other += counted_by_suffix(path for path in unused if kind_of(path) != kind)
        if left := sum(kind_of(path) == kind for path in unused):
            other[f"{kind} of another split"] = left
        return Chosen(kind, taken, captions, dict(sorted((+other).items())))

    def _check_no_split(self, table: str) -> None:
        asked = {"hf_split": self.choice.split, "hf_name": self.choice.name}
        for key, value in asked.items():
            if value not in (None, "train"):
                raise SettingError(
                    f"source.{key}: {self.where} is read by its table of clips, {table}, which "
                    f"knows no splits or configurations; leave out {key}, got {value!r}"
                )

    def _holds_nothing(self, plain: Sequence[str], other: Counter[str]) -> SettingError:
        script = next((path for path in sorted(plain) if re.fullmatch(r"[^/]+\.py", path)), None)
        if script is not None:
            return SettingError(
                f"source.hf_dataset: {self.where} holds a loading script ({script}), which is not "
                f"run, and no parquet files, tars or {self.media}; take a copy in one of these, "
                "such as the Hub's own (source.hf_revision: refs/convert/parquet)"
            )
        found = dict(sorted((other + counted_by_suffix(plain)).items())) or "nothing"
        return SettingError(
            f"source.hf_dataset must hold parquet files, tars or {self.media}; {self.where} holds "
            f"{found}"
        )


@dataclass(frozen=True, slots=True)
class FolderShape(Shape):
    """Pictures or clips with captions in `captions/` or beside them, or clips with a table."""

    where: str
    caption_suffixes: tuple[str, ...] = CAPTION_SUFFIXES
    media: Media = "pictures"

    def chosen(self, paths: Sequence[str], *, read: ReadFile) -> Chosen:
        plain, other = _plain(paths)
        table = table_among(plain) if self.media == "clips" else None
        if table is not None:
            return _of_table(table, plain, other, read=read)
        pictures = [path for path in plain if kind_of(path) == self.media]
        rest = sorted(set(plain) - set(pictures))
        captions = _captions(sorted(pictures), rest, self.caption_suffixes, self.media)
        unused = set(rest) - set(captions.values())
        other += counted_by_suffix(unused)
        return Chosen(self.media, sorted(pictures), captions, dict(sorted(other.items())))


@dataclass(frozen=True, slots=True)
class TarShape(Shape):
    """Uncompressed tars."""

    where: str
    media: Media = "pictures"

    def chosen(self, paths: Sequence[str], *, read: ReadFile) -> Chosen:
        plain, other = _plain(paths)
        packed = [path for path in plain if path.lower().endswith(COMPRESSED)]
        if packed:
            raise SettingError(
                f"source.input_path must match uncompressed tars, got {packed[0]}: {self.media} "
                "are read at random places, which a compressed tar does not allow; decompress it"
            )
        tars = of_kind(plain, "tar")
        other += counted_by_suffix(set(plain) - set(tars))
        if not tars:
            raise SettingError(
                f"source.input_path must match at least one .tar file, got {self.where}; "
                f"found instead: {dict(other) or 'nothing'}"
            )
        return Chosen("tar", tars, {}, dict(sorted(other.items())))


def _of_table(table: str, plain: Sequence[str], other: Counter[str], *, read: ReadFile) -> Chosen:
    """The clips below videos/ and all that the table names."""
    clips = [path for path in plain if kind_of(path) == "clips"]
    taken = {path for path in clips if path.startswith(f"{VIDEOS}/")}
    there = {composed(path): path for path in plain}
    for name, entry in entries_by_path(table_entries(table, read)).items():
        taken.add(there.get(name, entry.path))
    rest = set(plain) - taken - set(FILES_OF[table])
    if outside := len(rest.intersection(clips)):
        other[f"clips outside {VIDEOS}/"] = outside
    other += counted_by_suffix(rest.difference(clips))
    paths = sorted(taken)
    captions = dict.fromkeys(paths, table)
    return Chosen("clips", paths, captions, dict(sorted(other.items())), table)


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


def _captions(
    pictures: Sequence[str], others: Sequence[str], suffixes: tuple[str, ...], media: Media
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
    is_there = any(path.startswith(MIRRORED[media]) for path in (*pictures, *others))
    folder = MIRRORED[media] if is_there else ""
    has_captions = any(path.startswith(CAPTIONS) for path in others)
    found = {}
    for picture in pictures:
        stem = split_suffix(composed(picture))[0]
        mirrored = caption_stem(stem, mirrored=folder) if has_captions else None
        caption = metadata_of(picture, metadata) or texts.get(mirrored or "") or texts.get(stem)
        if caption is not None:
            found[picture] = caption
    return found
