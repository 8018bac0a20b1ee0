"""The pictures or clips of a tar and the captions that belong to them, from its list of members.

A picture's stem is its name without the last suffix: `aaa.bbb.jpg` goes with `aaa.bbb.txt`. Where
no member has that stem, WebDataset's key (the name up to the first dot) is tried, so that
`000.photo.jpg` goes with `000.txt`, unless that caption has a picture of its own.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from urllib.parse import quote

from diffprep_resources.errors import SampleReject
from diffprep_resources.sources.base import FILE_KEY
from diffprep_resources.sources.fields import FieldKeys, splits
from diffprep_resources.sources.names import (
    NOUNS,
    Media,
    composed,
    is_hidden,
    is_media,
    split_suffix,
    suffix_label,
)
from diffprep_resources.sources.tar_headers import TarMember
from diffprep_resources.sources.tar_links import followed

MAX_NAME = 4096
_NAMELESS: dict[Media, frozenset[str]] = {
    "pictures": frozenset({"image", "img", "photo"}),
    "clips": frozenset({"video", "clip"}),
}
"""Default keys that name no format; members with these suffixes are pictures or clips too."""


@dataclass(frozen=True, slots=True)
class TarPicture:
    """One picture of a tar; `key` is unique in the tar."""

    key: str
    name: str
    member: TarMember
    reject: SampleReject | None = None


@dataclass(slots=True)
class TarIndex:
    """All of a tar but its bytes: `fields` are members other than pictures, by composed name;
    `stems` are the pictures', composed."""

    pictures: list[TarPicture] = field(default_factory=list)
    stems: set[str] = field(default_factory=set)
    fields: dict[str, TarMember] = field(default_factory=dict)
    skipped: Counter[str] = field(default_factory=Counter)
    damage: SampleReject | None = None

    @property
    def num_samples(self) -> int:
        return len(self.pictures) + (self.damage is not None)


def tar_index(members: Iterable[TarMember], *, keys: FieldKeys) -> TarIndex:
    """The index of a tar's members; a SampleReject that ends them is kept as its damage."""
    index = TarIndex()
    walked: list[TarMember] = []
    try:
        for member in members:
            walked.append(member)
    except SampleReject as reject:
        index.damage = reject
    found: list[tuple[str, TarMember]] = []
    unsafe: dict[str, TarMember] = {}
    for member in followed(walked):
        name = normal_name(member.name)
        if member.kind == "folder":
            continue
        if name is None:
            unsafe.setdefault(split_suffix(member.name)[0], member)
        elif is_hidden(name) or "__MACOSX" in name.split("/"):
            index.skipped["hidden or __MACOSX"] += 1
        elif _is_picture(name, keys):
            found.append((name, member))
        elif member.kind != "file":
            index.skipped[member.kind] += 1
        else:
            index.fields.setdefault(composed(name), member)
    stems = {split_suffix(name)[0] for name, _ in found}
    index.stems = set(map(composed, stems))
    taken = {*stems, FILE_KEY}
    index.pictures = [*_keyed(found, taken=taken), *_unsafe(unsafe.values(), taken=taken)]
    _count_fields(index, keys.media)
    return index


def normal_name(name: str) -> str | None:
    """The name without `.` parts and doubled slashes, its last suffix in lower case.

    None for a name that is absolute, leads outside, is empty, or is longer than a path can be.
    """
    if len(name) > MAX_NAME or "\0" in name:
        return None
    parts = [part for part in name.split("/") if part not in ("", ".")]
    outside = ".." in name.replace("\\", "/").split("/")
    if not parts or outside or re.match(r"[/\\]|[A-Za-z]:[/\\]", name):
        return None
    stem, suffix = split_suffix("/".join(parts))
    return f"{stem}.{suffix}" if suffix else stem


def first_dot_key(name: str) -> tuple[str, str]:
    """WebDataset's key of a member, and what follows the first dot of its name."""
    slash = name.rfind("/") + 1
    key, _, rest = name[slash:].partition(".")
    return name[:slash] + key, rest


def caption_members(
    index: TarIndex, picture: TarPicture, *, keys: FieldKeys
) -> Iterator[tuple[TarMember, str | None]]:
    """Members that may hold the caption, in the order to be tried, each with a path inside it.

    None as the path: any caption key inside that JSON.
    """
    name = composed(picture.name)
    bases = [split_suffix(name)[0]]
    key = first_dot_key(name)[0]
    if key not in index.stems:
        bases.append(key)
    for base in bases:
        for caption_key in keys.caption_keys:
            for suffix, path in splits(caption_key):
                start, last = split_suffix(f"{base}.{suffix}")
                member = index.fields.get(f"{start}.{last}")
                if member is not None:
                    json_whole = not path and split_suffix(f"x.{suffix}")[1] == "json"
                    yield member, None if json_whole else path
        member = index.fields.get(f"{base}.json")
        if member is not None:
            yield member, None


def _is_picture(name: str, keys: FieldKeys) -> bool:
    suffix = split_suffix(name)[1]
    if keys.chosen_images:
        wanted = {key.lower() for key in keys.image_keys}
        return suffix in wanted or first_dot_key(name)[1].lower() in wanted
    return is_media(suffix, keys.media) or suffix in _NAMELESS[keys.media]


def _keyed(found: list[tuple[str, TarMember]], *, taken: set[str]) -> Iterator[TarPicture]:
    """The pictures in tar order; the first of a stem has it as key, others their whole name."""
    stems: set[str] = set()
    names: set[str] = set()
    for name, member in found:
        stem = split_suffix(name)[0]
        reject = None
        key = stem
        if stem in stems:
            key = _free(name, taken=taken)
            if member.name in names:
                message = f"{member.name} stands in the tar more than once; the first is used"
                reject = SampleReject("duplicate_key", message)
        reject = reject or _no_bytes(member)
        stems.add(stem)
        names.add(member.name)
        yield TarPicture(key, name, member, reject)


def _no_bytes(member: TarMember) -> SampleReject | None:
    """Why a picture's member cannot be read, if so."""
    if member.kind == "file":
        return None
    words = f"a {member.kind}, not a plain file"
    if member.kind == "link":
        words = f"a link to {member.target}, which is no file of this tar"
    return SampleReject("unreadable_file", f"member {member.name} is {words}")


def _free(name: str, *, taken: set[str]) -> str:
    key, number = name, 1
    while key in taken:
        number += 1
        key = f"{name}#{number}"
    taken.add(key)
    return key


def _unsafe(members: Iterable[TarMember], *, taken: set[str]) -> Iterator[TarPicture]:
    """A reject per unsafe stem, its key quoted so that it is no path."""
    for member in members:
        shown = member.name[:MAX_NAME]
        reject = SampleReject("unsafe_name", f"member {shown!r} would leave its folder")
        key = _free(f"(unsafe){quote(shown, safe='')}", taken=taken)
        yield TarPicture(key, "", member, reject)


def _count_fields(index: TarIndex, media: Media) -> None:
    """Count members that belong to no picture, and pictures that the recipe's keys leave out."""
    keys = {first_dot_key(composed(picture.name))[0] for picture in index.pictures}
    for name in index.fields:
        stem, suffix = split_suffix(name)
        if is_media(suffix, media):
            index.skipped[f"{suffix_label(suffix)} not among the image keys"] += 1
        elif stem not in index.stems and first_dot_key(name)[0] not in keys:
            index.skipped[f"{suffix_label(suffix)} without a {NOUNS[media]}"] += 1
