"""Stored samples as pictures, decoded where they are latents, beside what they were made of."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO

import numpy as np
from PIL import Image

from diffprep_assets.preview.fastvideo import LATENTS as RAW
from diffprep_assets.preview.originals import Original, Originals
from diffprep_assets.preview.sampling import stored_sample
from diffprep_assets.preview.shown_frames import shown_frames
from diffprep_assets.preview.stored_sample import Place, StoredSample
from diffprep_assets.shard_plan.plan import sized
from diffprep_assets.validate.metadata import DatasetFolder
from diffprep_resources.encoders.vae_codec import VaeCodec
from diffprep_resources.encoders.wan_codec import WanCodec
from diffprep_resources.errors import DiffprepError

# What two equal pictures of 8 bits get, rather than infinity.
HIGHEST_PSNR = 99.0
# Below it a person sees at a glance that something is wrong: of what a VAE decodes, and of stored
# pictures, whose encoder loses little.
POOR_DECODED, POOR_STORED = 20.0, 30.0


@dataclass(frozen=True, slots=True)
class Look:
    """One sample: its picture, out of the latents or as it is stored, uint8 [H, W, 3], the source's
    picture, and how near the two are in dB, None without a source. Of a clip they are three frames,
    [3, H, W, 3]. `drawn` says what is shown: latents, mean, vae_latent or picture."""

    sample: StoredSample
    decoded: np.ndarray
    original: Original
    psnr: float | None
    drawn: str

    @property
    def is_poor(self) -> bool:
        least = POOR_STORED if self.drawn == "picture" else POOR_DECODED
        return self.psnr is not None and self.psnr < least

    @property
    def size(self) -> str:
        height, width, _ = self.decoded.shape[-3:]
        return sized(width, height, int(self.sample.metadata.get("num_frames", 0)))

    @property
    def pictures(self) -> tuple[np.ndarray, ...]:
        """What is shown, uint8 [H, W, 3] each: one picture, or a clip's frames."""
        return _each(self.decoded)

    @property
    def originals(self) -> tuple[np.ndarray, ...]:
        """The same of the source; none without one."""
        return () if self.original.pixels is None else _each(self.original.pixels)


def looks(
    folder: DatasetFolder,
    places: Sequence[Place],
    *,
    codec: VaeCodec | WanCodec | None,
    originals: Originals,
) -> Iterator[Look]:
    """A look at each of the samples, one at a time; without a `codec` the samples must be stored
    pictures. Raises DiffprepError for a sample that cannot be read."""
    for place in places:
        sample = stored_sample(folder, place)
        drawn, decoded = _shown(sample, codec)
        original = originals.of(sample)
        found = None if original.pixels is None else psnr(decoded, original.pixels)
        yield Look(sample, decoded, original, found, drawn)


def _each(pixels: np.ndarray) -> tuple[np.ndarray, ...]:
    return tuple(pixels) if pixels.ndim == 4 else (pixels,)


def _shown(sample: StoredSample, codec: VaeCodec | WanCodec | None) -> tuple[str, np.ndarray]:
    """What is shown of a sample, and its pixels."""
    if sample.picture is not None:
        return "picture", stored_pixels(sample.picture, name=f"{sample.shard}/{sample.key}")
    if codec is None:
        raise DiffprepError(f"{sample.shard}/{sample.key}: latents, where pictures are expected")
    if isinstance(codec, WanCodec):
        return decoded_frames(sample, codec)
    drawn = "mean" if "mean" in sample.arrays else "latents"
    z = sample.arrays[drawn]
    return drawn, as_pixels(codec.decoded(z if drawn == "mean" else codec.unscaled(z)))


def decoded_frames(sample: StoredSample, codec: WanCodec) -> tuple[str, np.ndarray]:
    """Frames of the decoded clip: Energon's latents are normalised, FastVideo's are raw."""
    drawn = RAW if RAW in sample.arrays else "latents"
    if drawn not in sample.arrays:
        raise DiffprepError(f"{sample.shard}/{sample.key}: it holds no latents of a clip")
    latents = sample.arrays[drawn]
    decoded = codec.decoded(latents if drawn == RAW else codec.raw(latents))
    return drawn, as_pixels(shown_frames(decoded))


def stored_pixels(data: bytes, *, name: str) -> np.ndarray:
    """uint8 [H, W, 3] of a picture file. Raises DiffprepError naming the sample."""
    try:
        with Image.open(BytesIO(data)) as image:
            return np.asarray(image.convert("RGB"))
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise DiffprepError(f"{name}: its picture cannot be read: {error}") from error


def as_pixels(decoded: np.ndarray) -> np.ndarray:
    """uint8 of values in [-1, 1]; what lies outside is cut off."""
    return np.round((decoded.clip(-1, 1) + 1) * 127.5).astype(np.uint8)


def psnr(one: np.ndarray, other: np.ndarray) -> float | None:
    """Peak signal to noise ratio of two pictures of 8 bits in dB; None when their sizes differ."""
    if one.shape != other.shape:
        return None
    error = np.square(one.astype(np.float64) - other.astype(np.float64)).mean()
    return HIGHEST_PSNR if error == 0 else min(HIGHEST_PSNR, 10 * math.log10(255**2 / error))
