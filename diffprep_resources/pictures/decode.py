"""Bytes of a picture file as upright sRGB pixels, and what `bucket` must know before that.

All functions open the bytes by `open_picture` and decode by `_upright_pixels`, so the size that is
planned and the size that is encoded are one.
"""

from dataclasses import dataclass, replace

from PIL import Image, ImageColor

from diffprep_resources.errors import SampleReject
from diffprep_resources.pictures.color import color_notes, to_srgb
from diffprep_resources.pictures.opening import (
    TURNED,
    OpenedPicture,
    PictureLimits,
    open_picture,
    reading_picture,
)

__all__ = ["PictureInfo", "PictureLimits", "load_gray", "load_upright", "probe"]

_TRANSPOSES = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


@dataclass(frozen=True, slots=True)
class PictureInfo:
    """Upright size in pixels; format by content, as Pillow names it; notes for the report."""

    width: int
    height: int
    format: str
    num_frames: int
    notes: tuple[str, ...]


def probe(data: bytes, *, limits: PictureLimits) -> PictureInfo:
    """What the picture is. Pixels are decoded only where the file may be cut short.

    Raises SampleReject unreadable_image, unsupported_format, too_small or too_large.
    """
    with reading_picture():
        opened = open_picture(data, limits=limits)
        frames, frame_notes = _frames(opened)
        info = PictureInfo(
            width=opened.width,
            height=opened.height,
            format="JPEG" if opened.image.format == "MPO" else str(opened.image.format),
            num_frames=frames,
            notes=(*opened.notes, *frame_notes, *color_notes(opened.image)),
        )
        if not opened.whole:
            again = open_picture(data, limits=limits)
            _upright_pixels(again, background=(255, 255, 255))
        return info


def load_upright(data: bytes, *, limits: PictureLimits, background: str) -> Image.Image:
    """The first frame, upright, mode RGB, in sRGB, of the size that `probe` says, without metadata.

    `background` is a colour such as '#ffffff' that shows through transparent pixels. Raises
    SampleReject unreadable_image, unsupported_format, too_small or too_large.
    """
    with reading_picture():
        opened = open_picture(data, limits=limits)
        return _upright_pixels(opened, background=_color(background))


def load_gray(data: bytes, *, limits: PictureLimits, background: str, side: int) -> Image.Image:
    """The picture of `load_upright` in grey, mode L; for looking at, not for training.

    A JPEG comes at a half, a quarter or an eighth of its size where both sides stay at `side` or
    more: its decoder scales in passing. Raises as `load_upright`.
    """
    with reading_picture():
        opened = open_picture(data, limits=limits)
        if opened.image.draft("L", (side, side)) is not None:
            width, height = opened.image.size
            turned = opened.orientation in TURNED
            size = (height, width) if turned else (width, height)
            opened = replace(opened, width=size[0], height=size[1])
        return _upright_pixels(opened, background=_color(background)).convert("L")


def _color(text: str) -> tuple[int, int, int]:
    red, green, blue = ImageColor.getrgb(text)[:3]
    return red, green, blue


def _upright_pixels(opened: OpenedPicture, *, background: tuple[int, int, int]) -> Image.Image:
    opened.image.load()
    pixels = to_srgb(opened.image, background=background, bit_depth=opened.bit_depth)
    transpose = _TRANSPOSES.get(opened.orientation)
    if transpose is not None:
        pixels = pixels.transpose(transpose)
    if pixels.size != (opened.width, opened.height):
        raise SampleReject(
            "unreadable_image",
            f"its header says {opened.width}x{opened.height} pixels, its data holds "
            f"{pixels.width}x{pixels.height}",
        )
    # The same pixels without the file's EXIF and profile: whoever saves them as PNG or turns them
    # by EXIF would apply those a second time. Image.copy() would do it at the price of a copy.
    plain = pixels._new(pixels.im)
    plain.info.clear()
    return plain


def _frames(opened: OpenedPicture) -> tuple[int, tuple[str, ...]]:
    try:
        count = int(getattr(opened.image, "n_frames", 1))
    except Exception as error:
        return 1, (f"frames after the first cannot be counted ({type(error).__name__})",)
    if count > 1:
        return count, (f"first of {count} frames taken",)
    return 1, ()
