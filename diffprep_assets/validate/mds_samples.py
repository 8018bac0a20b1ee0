"""One sample of an MDS shard: the picture and the latents that a trainer takes from it."""

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from diffprep_assets.recipe.mds_columns import IMAGE, IMG_LATENT
from diffprep_assets.shard_mds.columns import T5_LATENT, T5_MASK
from diffprep_resources.mds.encodings import float32_of_bf16
from diffprep_resources.pictures.quiet import quiet_pillow

PILLOW_NAMES = {"jpg": "JPEG", "png": "PNG", "webp": "WEBP"}


@dataclass(frozen=True, slots=True)
class Expected:
    """What every sample of a shard must be: its size in pixels, where dataset.json says it; the
    pictures' format, None for any."""

    size: tuple[int, int] | None
    image_format: str | None


def sample_problems(
    sample: Mapping[str, Any], expected: Expected, *, decode: bool
) -> Iterator[str]:
    """What is wrong with one sample; its pixels and numbers are looked at only with `decode`."""
    size = (sample.get("width"), sample.get("height"))
    if expected.size is not None and size != expected.size:
        yield f"says {size[0]}x{size[1]} pixels, its bucket has {expected.size}"
    if not isinstance(sample.get(IMAGE), bytes):
        yield "has no picture in column image"
        return
    yield from _picture_problems(sample[IMAGE], size, expected, decode=decode)
    if decode:
        yield from _latents_problems(sample, size)
        yield from _text_problems(sample)


def _picture_problems(
    data: bytes, size: tuple[Any, Any], expected: Expected, *, decode: bool
) -> Iterator[str]:
    try:
        with quiet_pillow(), Image.open(io.BytesIO(data)) as image:
            if decode:
                image.load()
    except Exception as error:  # Pillow raises many types
        yield f"its picture cannot be decoded: {type(error).__name__} {error}"
        return
    if size not in ((None, None), image.size):
        yield f"its picture is {image.width}x{image.height}, its columns say {size[0]}x{size[1]}"
    if expected.image_format and image.format != PILLOW_NAMES[expected.image_format]:
        yield f"its picture is {image.format}, dataset.json says {expected.image_format}"


def _latents_problems(sample: Mapping[str, Any], size: tuple[Any, Any]) -> Iterator[str]:
    if IMG_LATENT not in sample:
        return
    values = values_of(sample[IMG_LATENT])
    if values.ndim != 3 or values.shape[0] % 2:
        yield f"img_latent must be [2C, h, w], got {values.shape}"
        return
    if not np.isfinite(values).all():
        yield "img_latent is not finite"
    elif (values[values.shape[0] // 2 :] <= 0).any():
        yield "img_latent must hold a positive std in its second half"
    if isinstance(size[0], int) and not _is_scaled(values.shape[1:], size):
        yield f"img_latent {values.shape} is none of a picture of {size[0]}x{size[1]}"


def _is_scaled(latent: Sequence[int], size: tuple[int, int]) -> bool:
    """Whether latent rows and columns are width and height over one whole number."""
    height, width = latent
    factor = size[1] // height if height else 0
    return (width * factor, height * factor) == size


def _text_problems(sample: Mapping[str, Any]) -> Iterator[str]:
    for name, array in sample.items():
        if name.startswith("latent_") and not np.isfinite(values_of(array)).all():
            yield f"{name} is not finite"
    if T5_LATENT in sample:
        mask, length = sample.get(T5_MASK), sample[T5_LATENT].shape[0]
        if mask is None or mask.shape != (length,) or not 0 < mask.sum() <= length:
            yield f"{T5_MASK} must mark at least one of {length} tokens"


def values_of(array: np.ndarray) -> np.ndarray:
    """Float32 values of a stored tensor; uint16 holds the bit patterns of bfloat16."""
    if array.dtype == np.uint16:
        return float32_of_bf16(array)
    return array.astype(np.float32)
