"""The bytes of a picture as the raw and MDS outputs store it: upright sRGB, cut, scaled as planned.

A JPEG that is already what would be stored keeps its bytes: to encode it again would lose.
A PNG is encoded anew even then: no pixel is lost, and every stored PNG is 8-bit RGB without the
text, gamma, animation and EXIF chunks that readers treat differently.
"""

from dataclasses import dataclass
from io import BytesIO
from typing import Literal, get_args

import numpy as np
from PIL import Image

from diffprep_resources.errors import SampleReject
from diffprep_resources.pictures.color import profile_of, transform_to_srgb
from diffprep_resources.pictures.decode import load_upright
from diffprep_resources.pictures.fit import Crop, fit
from diffprep_resources.pictures.opening import PictureLimits, open_picture, reading_picture

ImageFormat = Literal["jpg", "png", "webp"]
IMAGE_FORMATS: tuple[ImageFormat, ...] = get_args(ImageFormat)

LONGEST_SIDE = {"jpg": 65_500, "png": 65_535, "webp": 16_383}
"""In pixels, of what the encoders accept."""

LOSSLESS_WEBP, LOSSLESS_EFFORT = 100, 50

_START_OF_SCAN = 0xDA
_COMMENT, _APP1 = 0xFE, 0xE1
_STANDALONE = frozenset((0x01, *range(0xD0, 0xD9)))


@dataclass(frozen=True, slots=True)
class StoredForm:
    """How pictures are stored: the file format, and the quality of a lossy one (1 to 100)."""

    image_format: ImageFormat
    quality: int


@dataclass(frozen=True, slots=True)
class Cut:
    """What of an upright picture is stored, and at which size in pixels."""

    crop: Crop
    width: int
    height: int


def stored_picture(
    data: bytes, *, cut: Cut, form: StoredForm, limits: PictureLimits, background: str
) -> bytes:
    """The stored bytes of the picture file `data`; equal arguments give equal bytes.

    Raises SampleReject as `load_upright`, and `too_large` for a side that the format cannot hold.
    """
    picture = load_upright(data, limits=limits, background=background)
    if form.image_format == "jpg" and _can_stay(data, cut=cut, limits=limits):
        return without_metadata(data)
    pixels = fit(picture, crop=cut.crop, width=cut.width, height=cut.height)
    return encoded(pixels, form=form)


def encoded(pixels: np.ndarray, *, form: StoredForm) -> bytes:
    """uint8 sRGB [H, W, 3] as a file without metadata. Raises SampleReject too_large.

    JPEG keeps its colours at full resolution (4:4:4): at quality 92, saturated edges come back at
    41 dB, at 28 dB with Pillow's 4:2:0 (a natural picture at 37 and 35), for a fifth more bytes. A
    lossy WebP has 4:2:0 only; at quality 100 a WebP is lossless.
    """
    longest, limit = max(pixels.shape[:2]), LONGEST_SIDE[form.image_format]
    if longest > limit:
        raise SampleReject(
            "too_large", f"a {form.image_format} has sides up to {limit} pixels, got {longest}"
        )
    image, buffer = Image.fromarray(pixels), BytesIO()
    if form.image_format == "jpg":
        # Not `optimize`: 7% smaller, but Pillow 13 raises for noisy pictures ("Suspension not
        # allowed here": its buffer of a byte per pixel is too small).
        image.save(buffer, "JPEG", quality=form.quality, subsampling="4:4:4")
    elif form.image_format == "webp":
        lossless = form.quality == LOSSLESS_WEBP
        # Of a lossless file, `quality` is the effort.
        quality = LOSSLESS_EFFORT if lossless else form.quality
        image.save(buffer, "WEBP", quality=quality, lossless=lossless, method=4)
    else:
        image.save(buffer, "PNG")
    return buffer.getvalue()


def without_metadata(jpeg: bytes) -> bytes:
    """The JPEG file without its EXIF, XMP (APP1) and comment segments; the rest as it is, JFIF,
    ICC and Adobe segments included, so that it decodes to the same pixels."""
    kept, position = bytearray(jpeg[:2]), 2
    while position + 4 <= len(jpeg) and jpeg[position] == 0xFF:
        marker = jpeg[position + 1]
        if marker == _START_OF_SCAN:
            break
        if marker == 0xFF:
            position += 1
            continue
        length = 0 if marker in _STANDALONE else int.from_bytes(jpeg[position + 2 : position + 4])
        end = position + 2 + length
        if marker not in (_APP1, _COMMENT):
            kept += jpeg[position:end]
        position = end
    return bytes(kept) + jpeg[position:]


def _can_stay(data: bytes, *, cut: Cut, limits: PictureLimits) -> bool:
    """Whether the file is a JPEG of three components at the very size, all of it wanted, upright,
    and in sRGB. An MPO is not: it holds further pictures."""
    size = (cut.width, cut.height)
    if cut.crop != Crop(0, 0, *size):
        return False
    with reading_picture():
        opened = open_picture(data, limits=limits)
    image = opened.image
    if image.format != "JPEG" or image.mode != "RGB" or opened.orientation != 1:
        return False
    profile = profile_of(image)
    srgb = profile is None or transform_to_srgb(profile, "RGB") == "same"
    return srgb and image.size == size
