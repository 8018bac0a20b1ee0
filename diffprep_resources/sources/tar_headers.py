"""The members of a tar, from its headers alone.

Not `tarfile`: that ends in silence at a damaged header or a missing end, and on a negative size
(before Python 3.11.14) never returns. Format: POSIX.1-2001 pax interchange format and ustar, GNU
tar's manual "Basic Tar Format" for long names and base-256 numbers.
"""

import os
import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from diffprep_resources.errors import SampleReject
from diffprep_resources.hub.lfs_pointer import LFS_POINTER, is_lfs_pointer
from diffprep_resources.sources.local_files import read_at
from diffprep_resources.sources.names import name_from_bytes

BLOCK = 512
_MAX_NAME_BYTES = 1 << 20
_MAX_PADDING_BYTES = 1 << 20
_PAX_RECORD = re.compile(rb"(\d{1,7}) ([^=\n]+)=")
_OCTAL = re.compile(rb"[0-7]+")
_COMPRESSED = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ\0": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
}

MemberKind = Literal["file", "folder", "link", "sparse file", "special"]
_KINDS: dict[bytes, MemberKind] = {
    b"0": "file",
    b"\0": "file",
    b"7": "file",
    b"1": "link",
    b"2": "link",
    b"3": "special",
    b"4": "special",
    b"5": "folder",
    b"6": "special",
    b"S": "sparse file",
}
_SYMBOLIC = b"2"
_EXTENSIONS = frozenset({b"L", b"K", b"x", b"X", b"g"})
_WITHOUT_DATA = frozenset({b"1", b"2", b"3", b"4", b"5", b"6"})


@dataclass(frozen=True, slots=True)
class TarMember:
    """One member: its name as written, where its bytes are, and what it is. `target` of a link is
    a path from the tar's root."""

    name: str
    offset: int
    size: int
    kind: MemberKind
    target: str | None = None


@dataclass(slots=True)
class _Extension:
    """What the long-name and pax members before a header say about it."""

    name: bytes | None = None
    target: bytes | None = None
    size: int | None = None
    sparse: bool = False


def tar_members(descriptor: int) -> Iterator[TarMember]:
    """Every whole member of an uncompressed tar, in order; tars joined end to end read as one.

    Raises SampleReject after the last usable member: truncated_archive where the file is cut or
    lacks the end marker, unreadable_file where it is no tar or a header is damaged.
    """
    end = os.fstat(descriptor).st_size
    offset = 0
    extension = _Extension()
    while offset >= 0:
        header = read_at(descriptor, offset=offset, length=BLOCK)
        if not header or (len(header) < BLOCK and offset > 0):
            raise SampleReject("truncated_archive", _cut(offset, end))
        if not header.strip(b"\0"):
            offset = _next_after_end(descriptor, offset=offset)
            continue
        size = _checked_size(header.ljust(BLOCK, b"\0"), offset=offset)
        kind = header[156:157]
        data = offset + BLOCK
        if kind in _EXTENSIONS:
            _extend(extension, descriptor, kind=kind, offset=data, size=size)
        else:
            data = _after_sparse_map(descriptor, header=header, offset=data)
            size = _size_of_data(kind, extension, size=size)
            if data + size > end:
                raise SampleReject("truncated_archive", _cut(offset, end))
            yield _member(header, extension, offset=data, size=size)
            extension = _Extension()
        offset = data + (size + BLOCK - 1) // BLOCK * BLOCK


def _size_of_data(kind: bytes, extension: _Extension, *, size: int) -> int:
    if kind in _WITHOUT_DATA:
        return 0
    return size if extension.size is None else extension.size


def _member(header: bytes, extension: _Extension, *, offset: int, size: int) -> TarMember:
    name = extension.name
    if name is None:
        name = header[:100].partition(b"\0")[0]
        prefix = header[345:500].partition(b"\0")[0]
        if prefix and header[257:263] == b"ustar\0":
            name = prefix + b"/" + name
    kind = _KINDS.get(header[156:157], "special")
    if kind == "file" and name.endswith(b"/"):
        kind = "folder"
    if kind == "file" and extension.sparse:
        kind = "sparse file"
    target = _target(header, extension, name=name) if kind == "link" else None
    return TarMember(name_from_bytes(name), offset, size, kind, target)


def _target(header: bytes, extension: _Extension, *, name: bytes) -> str:
    """Where a link leads: a hard link to a name of the tar, a symbolic one from its own folder."""
    target = extension.target
    if target is None:
        target = header[157:257].partition(b"\0")[0]
    if header[156:157] == _SYMBOLIC:
        target = posixpath.join(posixpath.dirname(name), target)
    return name_from_bytes(target)


def _checked_size(header: bytes, *, offset: int) -> int:
    """The size field of a header whose checksum holds. Raises SampleReject otherwise."""
    size = _number(header[124:136])
    checksum = _number(header[148:156])
    blank = header[:148] + b" " * 8 + header[156:]
    if size is not None and (checksum == sum(blank) or checksum == _signed_sum(blank)):
        return size
    if offset > 0:
        raise SampleReject("unreadable_file", f"the header at byte {offset} is damaged")
    for magic, name in _COMPRESSED.items():
        if header.startswith(magic):
            message = f"compressed with {name}: pictures are read at random, so decompress it"
            raise SampleReject("unreadable_file", message)
    if is_lfs_pointer(header):
        raise SampleReject("unreadable_file", LFS_POINTER)
    raise SampleReject("unreadable_file", "not a tar file")


def _signed_sum(blank: bytes) -> int:
    """The checksum as some old writers make it, of signed bytes."""
    return sum(blank) - 256 * sum(byte > 127 for byte in blank)


def _number(field: bytes) -> int | None:
    """A non-negative number, octal text or base-256 binary; None where it is neither."""
    if field[0] == 0x80:
        return int.from_bytes(field[1:], "big")
    digits = field.partition(b"\0")[0].strip()
    if not digits:
        return 0
    return int(digits, 8) if _OCTAL.fullmatch(digits) else None


def _extend(extension: _Extension, descriptor: int, *, kind: bytes, offset: int, size: int) -> None:
    """Read one long-name or pax member into `extension`."""
    if size > _MAX_NAME_BYTES:
        message = f"the name at byte {offset} claims {size} bytes, at most {_MAX_NAME_BYTES}"
        raise SampleReject("unreadable_file", message)
    data = read_at(descriptor, offset=offset, length=size)
    if len(data) < size:
        raise SampleReject("truncated_archive", _cut(offset, offset + len(data)))
    if kind == b"L":
        extension.name = data.partition(b"\0")[0]
    elif kind == b"K":
        extension.target = data.partition(b"\0")[0]
    elif kind in (b"x", b"X"):
        _apply_pax(extension, data, offset=offset)


def _apply_pax(extension: _Extension, data: bytes, *, offset: int) -> None:
    position = 0
    while position < len(data) and data[position] != 0:
        match = _PAX_RECORD.match(data, position)
        end = position + int(match[1]) if match else 0
        if match is None or not match.end() < end <= len(data) or data[end - 1] != 0x0A:
            raise SampleReject("unreadable_file", f"the pax header at byte {offset} is damaged")
        value = data[match.end() : end - 1]
        if match[2] in (b"path", b"GNU.sparse.name"):
            extension.name = value
        elif match[2] == b"linkpath":
            extension.target = value
        elif match[2] == b"size" and value.isdigit() and len(value) < 20:
            extension.size = int(value)
        extension.sparse |= match[2].startswith(b"GNU.sparse.")
        position = end


def _after_sparse_map(descriptor: int, *, header: bytes, offset: int) -> int:
    """Where the data begins: GNU sparse members have further map blocks before it."""
    more = header[156:157] == b"S" and header[482]
    while more:
        block = read_at(descriptor, offset=offset, length=BLOCK)
        offset += BLOCK
        more = len(block) == BLOCK and block[504]
    return offset


def _next_after_end(descriptor: int, *, offset: int) -> int:
    """Where another tar begins after an end marker and its padding, or -1."""
    padding = read_at(descriptor, offset=offset, length=_MAX_PADDING_BYTES)
    zeros = len(padding) - len(padding.lstrip(b"\0"))
    return -1 if zeros == len(padding) else offset + zeros // BLOCK * BLOCK


def _cut(offset: int, end: int) -> str:
    return f"cut at byte {end}: no whole member from byte {offset} on, and no end marker"
