"""What a PNG's chunks say, read without decoding a pixel.

Pillow would decode the whole picture to learn whether an eXIf chunk follows the pixels, keeps text
chunks of any length in memory, and does not check the sums of IDAT chunks.
"""

import zlib
from dataclasses import dataclass

from diffprep_resources.errors import SampleReject

PNG_MAGIC = b"\x89PNG\r\n\x1a\n"
# Pillow's own limit for a compressed chunk (PngImagePlugin.MAX_TEXT_CHUNK), here for every chunk
# that is no pixel.
MAX_SIDE_DATA_BYTES = 1 << 20
# For all of them together, inflated; Pillow's own (PngImagePlugin.MAX_TEXT_MEMORY).
MAX_ALL_SIDE_DATA_BYTES = 64 << 20
_SIDE_DATA = frozenset((b"tEXt", b"zTXt", b"iTXt", b"iCCP", b"eXIf"))


@dataclass(frozen=True, slots=True)
class PngFacts:
    """`whole`: every chunk up to IEND is there and the pixels' sums are right."""

    whole: bool
    bit_depth: int
    exif: bytes | None


def read_png_chunks(data: bytes) -> PngFacts:
    """What the chunks say. Raises SampleReject too_large for text, profile or EXIF beyond 1 MiB."""
    view = memoryview(data)
    bit_depth = data[24] if len(data) > 24 else 8
    exif: bytes | None = None
    side_data = 0
    position = len(PNG_MAGIC)
    while position + 12 <= len(data):
        length = int.from_bytes(view[position : position + 4])
        kind = bytes(view[position + 4 : position + 8])
        body_end = position + 8 + length
        if kind in _SIDE_DATA:
            side_data += _side_data_size(kind, view[position + 8 : body_end], length=length)
            if side_data > MAX_ALL_SIDE_DATA_BYTES:
                message = f"the PNG's text chunks hold more than {MAX_ALL_SIDE_DATA_BYTES} bytes"
                raise SampleReject("too_large", message)
        if body_end + 4 > len(data):
            break
        if kind == b"IEND":
            return PngFacts(whole=True, bit_depth=bit_depth, exif=exif)
        if kind == b"eXIf":
            exif = bytes(view[position + 8 : body_end])
        if kind == b"IDAT":
            stored = int.from_bytes(view[body_end : body_end + 4])
            if zlib.crc32(view[position + 4 : body_end]) != stored:
                break
        position = body_end + 4
    return PngFacts(whole=False, bit_depth=bit_depth, exif=exif)


def _side_data_size(kind: bytes, body: memoryview, *, length: int) -> int:
    """Bytes in the chunk once inflated. Raises SampleReject too_large beyond 1 MiB."""
    name = kind.decode("ascii")
    if length > MAX_SIDE_DATA_BYTES:
        raise SampleReject(
            "too_large",
            f"the PNG's {name} chunk has {length} bytes; at most {MAX_SIDE_DATA_BYTES} are read",
        )
    compressed = _compressed_part(kind, bytes(body))
    if compressed is None:
        return length
    inflater = zlib.decompressobj()
    try:
        inflated = inflater.decompress(compressed, MAX_SIDE_DATA_BYTES)
    except zlib.error:
        return length
    if inflater.unconsumed_tail:
        raise SampleReject(
            "too_large",
            f"the PNG's {name} chunk inflates to more than {MAX_SIDE_DATA_BYTES} bytes",
        )
    return len(inflated)


def _compressed_part(kind: bytes, body: bytes) -> bytes | None:
    """The deflated bytes of a chunk that has any: keyword, NUL, method, (iTXt: two texts), data."""
    _, nul, rest = body.partition(b"\0")
    if not nul:
        return None
    if kind in (b"zTXt", b"iCCP"):
        return rest[1:]
    if kind == b"iTXt" and rest[:1] == b"\1":
        parts = rest[2:].split(b"\0", 2)
        return parts[2] if len(parts) == 3 else None
    return None
