"""A perceptual hash: 64 bits that stay nearly the same when a picture is scaled or saved anew.

The signs of a picture's lowest frequencies, as pHash (Zauner 2010, section 3.2.1) takes them: 32x32
in grey, a two-dimensional DCT, its top left 8x8, each against their median. How many bits differ
between a picture and its copies stands in docs/curation.md.
"""

import numpy as np
from PIL import Image

from diffprep_resources.pictures.decode import PictureLimits, load_gray

DRAFT_SIDE = 256
THUMBNAIL_SIDE = 32
FREQUENCIES = 8
FLAT_STD = 4.0
"""In grey levels of 255. Below it, noise decides the bits, and flat pictures would be equal."""

# An even picture has many frequencies that are 0 but for the last bits of a float64, which are not
# the same on every machine.
_DECIMALS = 6


def perceptual_hash(data: bytes, *, limits: PictureLimits, background: str) -> int | None:
    """The hash of a picture file, 0 to 2**64 - 1; None for a picture without contrast.

    Bit 8 * v + u (the lowest is bit 0) says whether the coefficient of vertical frequency v and
    horizontal frequency u is over the median of the 63 that are not the mean. Bit 0, the mean's, is
    0, and so at most 31 bits are set. Transparent pixels show `background`. Raises SampleReject as
    `load_upright`.
    """
    gray = load_gray(data, limits=limits, background=background, side=DRAFT_SIDE)
    size = (THUMBNAIL_SIDE, THUMBNAIL_SIDE)
    return hash_of_thumbnail(np.asarray(gray.resize(size, Image.Resampling.LANCZOS)))


def hash_of_thumbnail(gray: np.ndarray) -> int | None:
    """The hash of uint8 [32, 32]; None where its standard deviation is under 4."""
    pixels = gray.astype(np.float64)
    if pixels.std() < FLAT_STD:
        return None
    coefficients = np.round(_DCT @ pixels @ _DCT.T, _DECIMALS).ravel()
    bits = coefficients > np.median(coefficients[1:])
    bits[0] = False
    return int.from_bytes(np.packbits(bits, bitorder="little").tobytes(), "little")


def _dct_rows(size: int, rows: int) -> np.ndarray:
    """float64 [rows, size]: the first rows of the orthonormal DCT-II matrix."""
    frequency, place = np.arange(rows)[:, None], np.arange(size)[None, :]
    matrix = np.sqrt(2 / size) * np.cos(np.pi * (2 * place + 1) * frequency / (2 * size))
    matrix[0] = np.sqrt(1 / size)
    return matrix


_DCT = _dct_rows(THUMBNAIL_SIDE, FREQUENCIES)
