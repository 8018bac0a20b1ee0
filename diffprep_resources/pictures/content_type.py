"""Which picture format a file holds, by its content, and which package reads it.

Only the formats in `PILLOW_FORMATS` are ever handed to Pillow: others of its plug-ins start outside
programs (EPS starts Ghostscript) or accept almost any bytes (TGA).
"""

import functools
import importlib
from dataclasses import dataclass

from PIL import features

from diffprep_resources.errors import SampleReject

PILLOW_FORMATS = (
    "JPEG",
    "PNG",
    "WEBP",
    "GIF",
    "TIFF",
    "BMP",
    "AVIF",
    "JPEG2000",
    "PPM",
    "QOI",
)


@dataclass(frozen=True, slots=True)
class OutsideFormat:
    """A format that another package teaches Pillow to read."""

    name: str
    package: str
    module: str
    register: str | None
    pillow_format: str


_HEIC = OutsideFormat("HEIC", "pillow-heif", "pillow_heif", "register_heif_opener", "HEIF")
_JXL = OutsideFormat("JPEG XL", "pillow-jxl-plugin", "pillow_jxl", None, "JXL")
_HEIC_BRANDS = frozenset(
    (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"hevm", b"hevs", b"heif")
)
_AVIF_BRANDS = frozenset((b"avif", b"avis"))
_NO_PICTURE_READER: tuple[tuple[bytes, str, str], ...] = (
    (b"8BPS", "a Photoshop document", "psd-tools"),
    (b"\x76\x2f\x31\x01", "an OpenEXR picture", "OpenEXR"),
    (b"%PDF", "a PDF document", "pymupdf"),
    (b"\x1a\x45\xdf\xa3", "a Matroska or WebM video", "ffmpeg"),
    (b"%!PS", "a PostScript document", "Ghostscript"),
    (b"\x00\x00\x01\x00", "an icon", "Pillow"),
)


def formats_to_try(data: bytes) -> tuple[str, ...]:
    """The Pillow formats that may open these bytes.

    Raises SampleReject unsupported_format where the format is known and nothing installed reads it.
    """
    if data[:2] == b"\xff\x0a" or data[:12] == b"\x00\x00\x00\x0cJXL \r\n\x87\n":
        return _outside(_JXL)
    if data[4:8] == b"ftyp":
        return _iso_media(_brands(data))
    for magic, name, package in _NO_PICTURE_READER:
        if data.startswith(magic):
            raise SampleReject(
                "unsupported_format",
                f"this is {name}, which is not read here; {package} reads it: convert it to PNG",
            )
    return PILLOW_FORMATS


def _brands(data: bytes) -> list[bytes]:
    """The brands of an ISO media file, the major one first."""
    size = min(int.from_bytes(data[:4]), len(data), 4096)
    return [data[8:12], *(data[at : at + 4] for at in range(16, size - 3, 4))]


def _iso_media(brands: list[bytes]) -> tuple[str, ...]:
    if any(brand in _AVIF_BRANDS for brand in brands):
        if not features.check("avif"):
            raise SampleReject(
                "unsupported_format",
                "AVIF is read by Pillow built with libavif, which this one is not; "
                "install a Pillow wheel from PyPI (pip install --force-reinstall pillow)",
            )
        return PILLOW_FORMATS
    if any(brand in _HEIC_BRANDS for brand in brands):
        return _outside(_HEIC)
    brand = brands[0].decode("latin-1")
    raise SampleReject(
        "unsupported_format",
        f"an ISO media file of brand {brand!r} is a video or a picture that no reader is known for",
    )


@functools.cache
def _registered(outside: OutsideFormat) -> bool:
    """Whether the package is installed; if so, Pillow knows the format from here on."""
    try:
        module = importlib.import_module(outside.module)
    except ImportError:
        return False
    if outside.register:
        getattr(module, outside.register)()
    return True


def _outside(outside: OutsideFormat) -> tuple[str, ...]:
    if not _registered(outside):
        raise SampleReject(
            "unsupported_format",
            f"{outside.name} is read by the package {outside.package}, which is not installed "
            f"(pip install {outside.package})",
        )
    return (outside.pillow_format,)
