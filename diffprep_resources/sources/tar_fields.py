"""Fields of a tar's pictures: the JSON member that goes with each, and members of other kinds."""

from collections.abc import Sequence
from itertools import islice

from diffprep_resources.errors import SampleReject
from diffprep_resources.sources.base import PlainText
from diffprep_resources.sources.fields import FieldKeys, field_of, lookup, names_in, parse_json
from diffprep_resources.sources.local_files import MAX_CAPTION_BYTES, read_at
from diffprep_resources.sources.names import composed, split_suffix
from diffprep_resources.sources.tar_headers import TarMember
from diffprep_resources.sources.tar_samples import TarIndex, TarPicture, caption_members

PICTURES_LOOKED_AT = 8


class TarFields:
    """Reads fields of one open tar; keeps the JSON of the member read last."""

    def __init__(self, index: TarIndex, descriptor: int) -> None:
        self._index = index
        self._descriptor = descriptor
        self._parsed: tuple[str, object] | None = None

    def values(self, picture: TarPicture, names: Sequence[str]) -> tuple[object, ...]:
        """The value of each name; None where there is none, or its member cannot be read."""
        return tuple(self._value(picture, name) for name in names)

    def names(self) -> set[str]:
        """Names of fields of the first pictures."""
        found: set[str] = set()
        for picture in islice(self._index.pictures, PICTURES_LOOKED_AT):
            stem = split_suffix(composed(picture.name))[0]
            members = (name for name in self._index.fields if name.startswith(f"{stem}."))
            for name in members:
                suffix = split_suffix(name)[1]
                member = self._index.fields[name]
                inner = self._json(member) if suffix == "json" else None
                found |= names_in(inner) if isinstance(inner, dict) else {suffix}
        return found

    def _value(self, picture: TarPicture, name: str) -> object:
        keys = FieldKeys(caption_keys=(name,))
        for member, path in caption_members(self._index, picture, keys=keys):
            found = self._in_member(member, path, name)
            if found is not None:
                return found
        return None

    def _in_member(self, member: TarMember, path: str | None, name: str) -> object:
        if path == "":
            return self._text(member)
        parsed = self._json(member)
        if path is not None:
            return lookup(parsed, path)
        return parsed if name == "json" else field_of(parsed, name)

    def _text(self, member: TarMember) -> object:
        try:
            text = self._bytes(member).decode("utf-8-sig").strip()
        except (SampleReject, UnicodeDecodeError):
            return None
        return PlainText(text) if text else None

    def _json(self, member: TarMember) -> object:
        if self._parsed is None or self._parsed[0] != member.name:
            try:
                parsed = parse_json(self._bytes(member), where=member.name)
            except SampleReject:
                parsed = None
            self._parsed = member.name, parsed
        return self._parsed[1]

    def _bytes(self, member: TarMember) -> bytes:
        if member.size > MAX_CAPTION_BYTES:
            raise SampleReject("too_large", f"{member.name} holds {member.size} bytes")
        data = read_at(self._descriptor, offset=member.offset, length=member.size)
        if len(data) < member.size:
            raise SampleReject("truncated_archive", f"{member.name} is cut at {len(data)} bytes")
        return data
