"""The one way in which picture bytes are opened: what `probe` and `load_upright` share."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO

from PIL import ExifTags, Image, ImageFile, UnidentifiedImageError

from diffprep_resources.errors import SampleReject
from diffprep_resources.hub.lfs_pointer import LFS_POINTER, is_lfs_pointer
from diffprep_resources.pictures.color import check_samples
from diffprep_resources.pictures.content_type import formats_to_try
from diffprep_resources.pictures.png_chunks import PNG_MAGIC, PngFacts, read_png_chunks
from diffprep_resources.pictures.quiet import quiet_pillow
from diffprep_resources.pictures.structure import wholeness

MAX_SIDE = 65_535
"""Longest side in pixels that is read; JPEG's own limit."""

TURNED = (5, 6, 7, 8)
"""EXIF orientations that exchange width and height."""

# Pillow refuses over 179 million pixels whatever a recipe allows. Nothing here is decoded before
# the recipe's own limit was looked at.
Image.MAX_IMAGE_PIXELS = None


@dataclass(frozen=True, slots=True)
class PictureLimits:
    """What is refused before a pixel is decoded: sizes in upright pixels."""

    max_pixels: int
    min_side: int


@dataclass(frozen=True, slots=True)
class OpenedPicture:
    """A picture whose header is read and whose pixels are not.

    `width` and `height` are upright. `orientation` is what is left to do to the loaded pixels
    (EXIF 1 to 8): a TIFF turns itself while it loads.
    """

    image: ImageFile.ImageFile
    width: int
    height: int
    orientation: int
    bit_depth: int
    whole: bool
    notes: tuple[str, ...]


@contextmanager
def reading_picture() -> Iterator[None]:
    """A block in which whatever Pillow raises becomes a SampleReject, and its warnings vanish."""
    try:
        with quiet_pillow():
            yield
    except SampleReject:
        raise
    except Image.DecompressionBombError as error:
        raise SampleReject("too_large", str(error)) from error
    except MemoryError as error:
        raise SampleReject(
            "unreadable_image", "not enough memory to decode this picture", transient=True
        ) from error
    except Exception as error:
        text = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise SampleReject("unreadable_image", f"cannot be decoded ({text})") from error


def open_picture(data: bytes, *, limits: PictureLimits) -> OpenedPicture:
    """The opened picture, within the limits; call it inside `reading_picture`.

    Raises SampleReject unreadable_image, unsupported_format, too_small or too_large.
    """
    if not data:
        raise SampleReject("unreadable_image", "the file is empty (0 bytes)")
    if is_lfs_pointer(data):
        raise SampleReject("unreadable_image", LFS_POINTER)
    formats = formats_to_try(data)
    png = read_png_chunks(data) if data.startswith(PNG_MAGIC) else None
    try:
        image = Image.open(BytesIO(data), formats=formats)
    except UnidentifiedImageError as error:
        page = ", but HTML or XML" if data[:64].lstrip()[:1] == b"<" else ""
        raise SampleReject(
            "unreadable_image",
            f"not a picture that can be read{page}; the {len(data)} bytes begin with {data[:16]!r}",
        ) from error
    whole = png.whole if png else _is_whole(data, image=image)
    turn, notes = _orientation(image, png=png)
    width, height = _upright_size(image, turn=turn)
    _check_size(width, height, limits=limits)
    check_samples(image)
    return OpenedPicture(
        image=image,
        width=width,
        height=height,
        orientation=1 if image.format == "TIFF" else turn,
        bit_depth=png.bit_depth if png else 8,
        whole=whole,
        notes=notes,
    )


def _is_whole(data: bytes, *, image: ImageFile.ImageFile) -> bool:
    state = wholeness(data, image=image)
    if state == "cut":
        raise SampleReject(
            "unreadable_image", f"the {image.format} file is cut: its {len(data)} bytes have no end"
        )
    return state == "whole"


def _orientation(
    image: ImageFile.ImageFile, *, png: PngFacts | None
) -> tuple[int, tuple[str, ...]]:
    """EXIF orientation, 1 where there is none or nonsense, and a note if EXIF cannot be read."""
    if png and png.exif is not None:
        image.info.setdefault("exif", b"Exif\0\0" + png.exif)
    try:
        # Not image.getexif(): that of a PNG decodes all pixels to look for EXIF behind them.
        value = Image.Image.getexif(image).get(ExifTags.Base.Orientation, 1)
    except Exception as error:
        image.info.pop("exif", None)
        return 1, (f"EXIF cannot be read ({type(error).__name__}); taken as upright",)
    return (value if isinstance(value, int) and 1 <= value <= 8 else 1), ()


def _upright_size(image: ImageFile.ImageFile, *, turn: int) -> tuple[int, int]:
    width, height = image.size
    tags = getattr(image, "tag_v2", None)
    # Pillow gives a TIFF's size as turned already by its own tag (not by one in XMP).
    already = tags is not None and tags.get(ExifTags.Base.Orientation) in TURNED
    return (height, width) if (turn in TURNED) != already else (width, height)


def _check_size(width: int, height: int, *, limits: PictureLimits) -> None:
    size = f"{width}x{height} pixels"
    if min(width, height) < max(1, limits.min_side):
        raise SampleReject("too_small", f"{size}; no side may be under {limits.min_side}")
    if width * height > limits.max_pixels:
        raise SampleReject("too_large", f"{size}; at most {limits.max_pixels} pixels are read")
    if max(width, height) > MAX_SIDE:
        raise SampleReject("too_large", f"{size}; no side may be over {MAX_SIDE}")
