"""Whether a clip's file was cut short, told from the sizes that its outermost parts claim.

FFmpeg reads what is there of a cut file and says nothing, so a cut clip looks like a short one.
"""

import os
from pathlib import Path
from typing import BinaryIO

from diffprep_resources.clips.opening import ClipSource

_EBML = b"\x1a\x45\xdf\xa3"
_SEGMENT = b"\x18\x53\x80\x67"


def missing_bytes(source: ClipSource) -> int:
    """How many bytes an ISO media file (mp4, mov) or a Matroska file (mkv, webm) lacks at its end;
    0 where it is whole or does not tell."""
    if isinstance(source, Path):
        with source.open("rb") as file:
            return _missing(file)
    return _missing(source)


def _missing(file: BinaryIO) -> int:
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    head = file.read(8)
    if head[4:] in (b"ftyp", b"wide", b"mdat", b"moov"):
        return max(0, _boxes_end(file, size) - size)
    if head[:4] == _EBML:
        return max(0, _segment_end(file) - size)
    return 0


def _boxes_end(file: BinaryIO, size: int) -> int:
    """Where the last outermost box of an ISO media file claims to end."""
    position = 0
    while position + 8 <= size:
        file.seek(position)
        head = file.read(16)
        length = int.from_bytes(head[:4])
        if length == 1:
            length = int.from_bytes(head[8:16])
        if length < 8:
            # 0 is a box that reaches to the end of the file, whatever that is.
            return size
        position += length
    return position


def _segment_end(file: BinaryIO) -> int:
    """Where the segment of a Matroska file claims to end; 0 where its length is not known."""
    file.seek(4)
    header = _number(file)
    if header is None:
        return 0
    file.seek(header, os.SEEK_CUR)
    if file.read(4) != _SEGMENT:
        return 0
    length = _number(file)
    return 0 if length is None else file.tell() + length


def _number(file: BinaryIO) -> int | None:
    """A length of EBML's variable size; None for the one with all bits set, which says nothing."""
    first = file.read(1)
    if not first or not first[0]:
        return None
    more = 8 - first[0].bit_length()
    value = int.from_bytes(bytes([first[0] & (0x7F >> more)]) + file.read(more))
    return None if value == (1 << 7 * (more + 1)) - 1 else value
