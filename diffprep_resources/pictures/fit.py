"""Cutting out of an upright picture what is encoded, at the size that is encoded."""

from dataclasses import dataclass

import numpy as np
from PIL import Image


@dataclass(frozen=True, slots=True)
class Crop:
    """A rectangle in upright pixels of the original picture."""

    left: int
    top: int
    width: int
    height: int


def fit(image: Image.Image, *, crop: Crop, width: int, height: int) -> np.ndarray:
    """The crop scaled to the size by Lanczos: uint8 [height, width, 3], writable, no alias.

    A crop of exactly that size is not resampled. Raises ValueError for a crop outside the picture.
    """
    box = (crop.left, crop.top, crop.left + crop.width, crop.top + crop.height)
    inside = 0 <= box[0] < box[2] <= image.width and 0 <= box[1] < box[3] <= image.height
    if not inside or image.mode != "RGB":
        raise ValueError(
            f"crop must lie inside an RGB picture, got {crop} in {image.mode} "
            f"{image.width}x{image.height}"
        )
    # Cropped first: Image.resize(box=...) lets pixels outside of the box into its edges.
    part = image if (crop.width, crop.height) == image.size else image.crop(box)
    if part.size != (width, height):
        part = part.resize((width, height), Image.Resampling.LANCZOS)
    return np.array(part)
