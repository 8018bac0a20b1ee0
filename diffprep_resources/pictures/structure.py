"""Whether a picture file is all there, told from its structure without decoding.

Pillow notices a cut file only while it decodes (seen for JPEG, PNG, BMP, TIFF, AVIF; a cut WebP
does not open). What cannot be told here is decoded by the caller, to be sure.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

from PIL import Image, ImageFile

Wholeness = Literal["whole", "cut", "unsure"]

_STANDALONE_MARKERS = frozenset((0x01, *range(0xD0, 0xD9)))
_START_OF_SCAN = 0xDA
_STRIP_OFFSETS, _STRIP_SIZES, _TILE_OFFSETS, _TILE_SIZES = 273, 279, 324, 325


def wholeness(data: bytes, *, image: ImageFile.ImageFile) -> Wholeness:
    """`whole` and `cut` only where the file's own structure says so.

    PNG is not judged here: `png_chunks` does it.
    """
    if image.format in ("JPEG", "MPO"):
        return _jpeg_wholeness(data)
    if image.format == "WEBP":
        return "whole"
    if image.format == "GIF":
        is_whole = data.rstrip(b"\0").endswith(b";")
    elif image.format == "TIFF":
        is_whole = _tiff_strips_are_inside(image, size=len(data))
    else:
        is_whole = image.format == "AVIF" and _boxes_fit(data)
    return "whole" if is_whole else "unsure"


def _jpeg_wholeness(data: bytes) -> Wholeness:
    """Whether an end marker follows the first scan; a thumbnail's own end comes before it.

    Without one the file is cut, even where Pillow makes a picture of it: a half-finished download
    that ends in zeros decodes to grey.
    """
    position = 2
    while position + 4 <= len(data) and data[position] == 0xFF:
        marker = data[position + 1]
        if marker == 0xFF:
            position += 1
        elif marker in _STANDALONE_MARKERS:
            position += 2
        elif marker == _START_OF_SCAN:
            return "cut" if data.find(b"\xff\xd9", position) == -1 else "whole"
        else:
            position += 2 + int.from_bytes(data[position + 2 : position + 4])
    return "unsure"


def _tiff_strips_are_inside(image: Image.Image, *, size: int) -> bool:
    tags: Mapping[int, object] = getattr(image, "tag_v2", {})
    offsets = tags.get(_STRIP_OFFSETS) or tags.get(_TILE_OFFSETS)
    sizes = tags.get(_STRIP_SIZES) or tags.get(_TILE_SIZES)
    if not isinstance(offsets, Sequence) or not isinstance(sizes, Sequence):
        return False
    if len(offsets) != len(sizes):
        return False
    return all(offset + length <= size for offset, length in zip(offsets, sizes, strict=True))


def _boxes_fit(data: bytes) -> bool:
    """Whether the top boxes of an ISO media file end exactly where the file does."""
    position = 0
    while position + 8 <= len(data):
        length = int.from_bytes(data[position : position + 4])
        if length == 1:
            length = int.from_bytes(data[position + 8 : position + 16])
        if length == 0:
            return False
        if length < 8:
            return False
        position += length
    return position == len(data)
