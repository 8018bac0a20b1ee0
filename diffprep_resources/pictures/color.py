"""Any pixels that Pillow can load, as sRGB: 16 bit, palettes, alpha, CMYK, colour profiles."""

import functools
import io
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import xxhash
from PIL import Image, ImageCms

from diffprep_resources.errors import SampleReject

_TIFF_BITS_PER_SAMPLE, _TIFF_PHOTOMETRIC, _WHITE_IS_ZERO = 258, 262, 0
_SIXTEEN_BIT = ("I;16", "I;16L", "I;16B", "I;16N")
_WITH_ALPHA = ("RGBA", "RGBa", "LA", "La", "PA")
# The profile's own name of its colours (ICC.1 7.2.6), for the mode in which it is applied.
_SPACE_OF_MODE = {"RGB": b"RGB ", "L": b"GRAY", "CMYK": b"CMYK", "LAB": b"Lab "}


@dataclass(frozen=True, slots=True)
class ColorProfile:
    """ICC bytes, equal by digest."""

    digest: str
    data: bytes = field(compare=False, repr=False)


def to_srgb(image: Image.Image, *, background: tuple[int, int, int], bit_depth: int) -> Image.Image:
    """Loaded pixels as RGB in sRGB, composited on the background. `bit_depth` is a PNG's own."""
    profile = profile_of(image)
    pixels, alpha = _split_alpha(image, bit_depth=bit_depth)
    rgb = _through_profile(pixels, profile=profile)
    if alpha is None or alpha.getextrema() == (255, 255):
        return rgb
    canvas = Image.new("RGB", rgb.size, background)
    canvas.paste(rgb, mask=alpha)
    return canvas


def check_samples(image: Image.Image) -> None:
    """Raises SampleReject unsupported_format for samples without an agreed range, told by the
    header alone."""
    if image.mode == "F" or (image.mode == "I" and image.format != "PPM"):
        raise SampleReject(
            "unsupported_format",
            f"{image.format} with 32-bit or signed samples has no agreed range; save it as 8 or "
            "16 bit",
        )


def color_notes(image: Image.Image) -> tuple[str, ...]:
    """What a person should know about the way this picture's colours are converted."""
    profile = profile_of(image)
    if profile is None:
        if image.mode == "CMYK":
            return ("CMYK without a colour profile; converted plainly",)
        return ()
    mode = _mode_for(profile, mode=_plain_mode(image.mode))
    if mode is None or transform_to_srgb(profile, mode) == "unusable":
        return ("colour profile cannot be used; taken as sRGB",)
    return ()


def profile_of(image: Image.Image) -> ColorProfile | None:
    data = image.info.get("icc_profile")
    if not data or not isinstance(data, bytes):
        return None
    return ColorProfile(xxhash.xxh3_128_hexdigest(data), data)


def _split_alpha(image: Image.Image, *, bit_depth: int) -> tuple[Image.Image, Image.Image | None]:
    """Pixels in mode L, RGB, CMYK or LAB, and 8-bit alpha where there is any."""
    key = image.info.get("transparency")
    if image.mode in (*_SIXTEEN_BIT, "I", "F"):
        return _eight_bit(image, key=key)
    mode = _plain_mode(image.mode)
    if key is not None and image.mode in ("P", "L", "RGB", "1"):
        image.info["transparency"] = _scaled_key(key, mode=image.mode, bit_depth=bit_depth)
    elif image.mode not in _WITH_ALPHA:
        return (image if image.mode == mode else image.convert(mode)), None
    wanted = "LA" if mode == "L" else "RGBA"
    with_alpha = image if image.mode == wanted else image.convert(wanted)
    return with_alpha.convert(mode), with_alpha.getchannel("A")


def _plain_mode(mode: str) -> str:
    if mode in ("CMYK", "LAB"):
        return mode
    return "L" if mode in ("L", "1", "LA", "La", "I", *_SIXTEEN_BIT) else "RGB"


def _eight_bit(image: Image.Image, *, key: object) -> tuple[Image.Image, Image.Image | None]:
    """Grey of more than 8 bits, rounded to 8; Pillow's own conversion clips instead."""
    tags = getattr(image, "tag_v2", {})
    bits = tags.get(_TIFF_BITS_PER_SAMPLE, (16,))[0]
    largest = (1 << min(int(bits), 16)) - 1
    values = np.asarray(image).astype(np.uint32)
    scaled = np.minimum((values * 255 + largest // 2) // largest, 255).astype(np.uint8)
    if tags.get(_TIFF_PHOTOMETRIC) == _WHITE_IS_ZERO:
        # Pillow turns 1 and 8 bits round itself, and leaves 16 as they are.
        scaled = 255 - scaled
    grey = Image.fromarray(scaled)
    if not isinstance(key, int):
        return grey, None
    return grey, Image.fromarray(np.where(values == key, 0, 255).astype(np.uint8))


def _scaled_key(key: object, *, mode: str, bit_depth: int) -> object:
    """A PNG's transparent colour in the 8 bits of the pixels; Pillow leaves it in the file's."""
    if mode == "L" and isinstance(key, int) and bit_depth in (2, 4):
        return key * (255 // ((1 << bit_depth) - 1))
    if mode == "RGB" and isinstance(key, tuple) and bit_depth == 16:
        return tuple(value >> 8 for value in key)
    return key


def _through_profile(pixels: Image.Image, *, profile: ColorProfile | None) -> Image.Image:
    mode = _mode_for(profile, mode=pixels.mode) if profile else None
    if profile is None and pixels.mode == "LAB":
        transform = _lab_transform()
    else:
        transform = transform_to_srgb(profile, mode) if profile and mode else None
    if not isinstance(transform, ImageCms.ImageCmsTransform):
        return pixels if pixels.mode == "RGB" else pixels.convert("RGB")
    source = pixels if mode in (None, pixels.mode) else pixels.convert(mode)
    converted = ImageCms.applyTransform(source, transform)
    if converted is None:
        raise OSError("the colour profile could not be applied")
    return converted


def _mode_for(profile: ColorProfile, *, mode: str) -> str | None:
    """The mode in which the pixels go through the profile; None if it is made for others."""
    space = profile.data[16:20]
    if space == _SPACE_OF_MODE[mode]:
        return mode
    return "RGB" if mode == "L" and space == _SPACE_OF_MODE["RGB"] else None


@functools.lru_cache(maxsize=32)
def transform_to_srgb(
    profile: ColorProfile, mode: str
) -> ImageCms.ImageCmsTransform | Literal["same", "unusable"]:
    """The way to sRGB, perceptual as ImageCms does it; `same` where the profile is sRGB already."""
    try:
        source = ImageCms.ImageCmsProfile(io.BytesIO(profile.data))
        transform = ImageCms.buildTransform(source, ImageCms.createProfile("sRGB"), mode, "RGB")
        return "same" if _changes_nothing(transform, mode=mode) else transform
    except (ImageCms.PyCMSError, OSError, ValueError, TypeError):
        return "unusable"


@functools.cache
def _lab_transform() -> ImageCms.ImageCmsTransform:
    return ImageCms.buildTransform(
        ImageCms.createProfile("LAB"), ImageCms.createProfile("sRGB"), "LAB", "RGB"
    )


def _changes_nothing(transform: ImageCms.ImageCmsTransform, *, mode: str) -> bool:
    """Whether no colour of a coarse cube moves by more than one step of 255."""
    if mode not in ("RGB", "L"):
        return False
    steps = np.linspace(0, 255, 18, dtype=np.uint8)
    if mode == "RGB":
        cube = np.stack(np.meshgrid(steps, steps, steps, indexing="ij"), axis=-1).reshape(18, -1, 3)
        expected = cube
    else:
        cube = steps.reshape(1, -1)
        expected = np.repeat(cube[:, :, None], 3, axis=2)
    converted = ImageCms.applyTransform(Image.fromarray(cube), transform)
    moved = np.abs(np.asarray(converted).astype(np.int16) - expected.astype(np.int16))
    return int(moved.max()) <= 1
