"""Stored samples decoded back to pictures, beside the pictures that they were made of."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from diffprep_assets.preview.originals import Original, Originals
from diffprep_assets.preview.sampling import Place, StoredSample, stored_sample
from diffprep_assets.validate.metadata import DatasetFolder
from diffprep_resources.encoders.vae_codec import VaeCodec

# What two equal pictures of 8 bits get, rather than infinity.
HIGHEST_PSNR = 99.0


@dataclass(frozen=True, slots=True)
class Look:
    """One sample: its picture out of the latents, uint8 [H, W, 3], the source's picture, and how
    near the two are in dB, None without a source. `drawn` says what was decoded."""

    sample: StoredSample
    decoded: np.ndarray
    original: Original
    psnr: float | None
    drawn: str

    @property
    def size(self) -> str:
        height, width, _ = self.decoded.shape
        return f"{width}x{height}"


def looks(
    folder: DatasetFolder, places: Sequence[Place], *, codec: VaeCodec, originals: Originals
) -> Iterator[Look]:
    """A look at each of the samples, one at a time."""
    for place in places:
        sample = stored_sample(folder, place)
        drawn = "mean" if "mean" in sample.arrays else "latents"
        z = sample.arrays[drawn]
        decoded = as_pixels(codec.decoded(z if drawn == "mean" else codec.unscaled(z)))
        original = originals.of(sample)
        found = None if original.pixels is None else psnr(decoded, original.pixels)
        yield Look(sample, decoded, original, found, drawn)


def as_pixels(decoded: np.ndarray) -> np.ndarray:
    """uint8 of values in [-1, 1]; what lies outside is cut off."""
    return np.round((decoded.clip(-1, 1) + 1) * 127.5).astype(np.uint8)


def psnr(one: np.ndarray, other: np.ndarray) -> float | None:
    """Peak signal to noise ratio of two pictures of 8 bits in dB; None when their sizes differ."""
    if one.shape != other.shape:
        return None
    error = np.square(one.astype(np.float64) - other.astype(np.float64)).mean()
    return HIGHEST_PSNR if error == 0 else min(HIGHEST_PSNR, 10 * math.log10(255**2 / error))
