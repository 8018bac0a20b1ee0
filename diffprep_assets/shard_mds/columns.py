"""The columns of an MDS sample, as PRX's loader names and reads them.

    image                                       a picture file's bytes
    width height original_width original_height  int, in pixels; the original is upright
    id source_key caption                       str; further captions under their own names
    img_latent                                  cat(mean, std) on dim 0, unscaled: [2C, h, w]
    latent_caption_t5 latent_caption_clip       [L, D] padded to its full length; [P], pooled
    attention_mask_caption_t5                   uint8 [L], 1 where there is a token

A pooled vector has no tokens, so CLIP's has no mask. Source: PRX, dataset/dataset.py. A tower's
name holds no `_`: what stands behind the last one is the tower.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from diffprep_assets.recipe.mds_columns import IMAGE, IMG_LATENT, SIZES, TEXTS
from diffprep_resources.encoders.base import DtypeName
from diffprep_resources.pictures.stored import ImageFormat

if TYPE_CHECKING:
    import torch

# The library has no encoding for WebP. Its `jpeg` and `png` decode alike, by Pillow's Image.open,
# which goes by the bytes (mosaicml-streaming 0.13, base/format/mds/encodings.py).
IMAGE_ENCODINGS: dict[ImageFormat, str] = {"jpg": "jpeg", "png": "png", "webp": "jpeg"}
T5_LATENT, CLIP_LATENT = "latent_caption_t5", "latent_caption_clip"
T5_MASK = "attention_mask_caption_t5"


@dataclass(frozen=True, slots=True)
class MdsColumns:
    """Which columns a dataset has. `captions` are those besides `caption`, by their fields' names;
    `dtype` is that of stored tensors."""

    image_format: ImageFormat
    captions: tuple[str, ...]
    latents: bool
    text_latents: bool
    dtype: DtypeName

    @property
    def encodings(self) -> dict[str, str]:
        """The MDS encoding of every column."""
        tensor = "bf16" if self.dtype == "bfloat16" else "ndarray"
        columns = {IMAGE: IMAGE_ENCODINGS[self.image_format], **dict.fromkeys(SIZES, "int")}
        columns |= dict.fromkeys((*TEXTS, *self.captions), "str")
        if self.latents:
            columns[IMG_LATENT] = tensor
        if self.text_latents:
            columns |= {T5_LATENT: tensor, CLIP_LATENT: tensor, T5_MASK: "ndarray"}
        return columns


def picture_columns(tensors: "Mapping[str, torch.Tensor]") -> dict[str, np.ndarray]:
    """`img_latent` of one sample's raw `mean` and `logvar` [C, h, w]; std in the stored dtype."""
    import torch

    mean = tensors["mean"]
    std = (0.5 * tensors["logvar"].to(torch.float32)).exp().to(mean.dtype)
    return {IMG_LATENT: array_of(torch.cat([mean, std]))}


def text_columns(tensors: "Mapping[str, torch.Tensor]", *, tokens: int) -> dict[str, np.ndarray]:
    """The latents of one caption's encoded text, and the mask of its T5 `tokens`, those beyond the
    encoder's limit cut off."""
    t5 = tensors["prompt_embeds"]
    mask = np.zeros(t5.shape[0], np.uint8)
    mask[:tokens] = 1
    return {
        T5_LATENT: array_of(t5),
        CLIP_LATENT: array_of(tensors["pooled_prompt_embeds"]),
        T5_MASK: mask,
    }


def array_of(tensor: "torch.Tensor") -> np.ndarray:
    """The values as numpy has them; of bfloat16, which it has not, the bit patterns in uint16."""
    import torch

    plain = tensor.contiguous()
    return (plain.view(torch.uint16) if plain.dtype == torch.bfloat16 else plain).numpy()


def sample_values(
    *,
    key: str,
    source_key: str,
    picture: bytes,
    sizes: tuple[int, int, int, int],
    captions: Mapping[str, str],
) -> dict[str, Any]:
    """The columns that need no encoder. `sizes` in the order of SIZES; `captions` by column, that
    of `caption` among them."""
    return {
        IMAGE: picture,
        **dict(zip(SIZES, sizes, strict=True)),
        "id": key,
        "source_key": source_key,
        **captions,
    }
