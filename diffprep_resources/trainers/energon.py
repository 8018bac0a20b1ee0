"""The task encoders that a trainer passes to energon: for pre-encoded pictures and clips, and for
raw pictures.

    get_train_dataset(path, batch_size=8, task_encoder=PreencodedTaskEncoder(), ...)
    get_train_dataset(path, batch_size=2, task_encoder=PreencodedVideoTaskEncoder(), ...)
    get_train_dataset(path, batch_size=8, task_encoder=RawTaskEncoder(), ...)

Batches are uniform in shape, however many buckets the dataset has. Needs energon and torch, and
Pillow for raw datasets.
Shapes: B samples, C latent channels, T latent frames, h w latent sides, L tokens, D P V embedding
widths, N patches, H W picture sides in pixels.
"""

import io
import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from megatron.energon import Cooker, DefaultTaskEncoder, Sample, basic_sample_keys, stateless
from PIL import Image

from diffprep_resources.trainers.tensors import tensor_from_bytes

TENSORS = ("latents", "prompt_embeds", "pooled_prompt_embeds")
RESAMPLE_TENSORS = ("mean", "logvar")
VIDEO_TENSORS = ("latents", "prompt_embeds")
FIRST_FRAME_TENSORS = ("first_frame_latents", "clip_feature")
PICTURES = ("jpg", "png", "webp")


@dataclass(kw_only=True)
class PreencodedSample(Sample):
    """One sample in its stored dtypes.

    latents [C, h, w] scaled; prompt_embeds [L, D]; pooled_prompt_embeds [P]; mean and logvar
    [C, h, w] raw, only in datasets of `vae_latent_mode: resample`; metadata is the json member.
    """

    latents: torch.Tensor
    prompt_embeds: torch.Tensor
    pooled_prompt_embeds: torch.Tensor
    mean: torch.Tensor | None = None
    logvar: torch.Tensor | None = None
    caption: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)


@stateless
def cook_preencoded(sample: dict[str, Any]) -> PreencodedSample:
    """The sample that the members' bytes hold. ValueError when a required member is missing."""
    return PreencodedSample(
        **basic_sample_keys(sample),
        **_tensors(sample, TENSORS, optional=RESAMPLE_TENSORS),
        caption=sample.get("caption.txt", b"").decode("utf-8"),
        metadata=json.loads(sample.get("json", b"{}")),
    )


def _tensors(
    sample: dict[str, Any], required: tuple[str, ...], *, optional: tuple[str, ...]
) -> dict[str, Any]:
    """The tensors that the sample's members hold, by name. ValueError where one is missing."""
    missing = [f"{name}.pth" for name in required if f"{name}.pth" not in sample]
    if missing:
        raise ValueError(f"sample {sample['__key__']}: no member {', '.join(missing)}")
    return {
        name: tensor_from_bytes(sample[f"{name}.pth"], name=f"{sample['__key__']}.{name}.pth")
        for name in required + optional
        if f"{name}.pth" in sample
    }


class PreencodedTaskEncoder(
    DefaultTaskEncoder[PreencodedSample, PreencodedSample, dict[str, Any], dict[str, Any]]
):
    """Reads `encoding: preencoded` datasets, of one or many buckets, into dicts of tensors."""

    # None hands the members' bytes to the cooker, so that webdataset unpickles nothing.
    decoder = None
    cookers = (Cooker(cook_preencoded, has_subflavors={"encoding": "preencoded"}),)

    def batch_group_criterion(self, sample: PreencodedSample) -> tuple[tuple[int, ...], None]:
        """Samples of one latent shape go into one batch, of the size that the loader was given."""
        return tuple(sample.latents.shape), None

    @stateless
    def batch(self, samples: list[PreencodedSample]) -> dict[str, Any]:
        """`latents` [B, C, h, w], `prompt_embeds` [B, L, D], `pooled_prompt_embeds` [B, P].

        In resample mode also `mean` and `logvar` [B, C, h, w]; always `captions`, `metadata`
        and energon's `__key__` (lists of B) and `__sources__`. Nothing is cast.
        """
        names = TENSORS if samples[0].mean is None else TENSORS + RESAMPLE_TENSORS
        return {
            "__key__": [sample.__key__ for sample in samples],
            "__sources__": tuple(source for s in samples for source in s.__sources__ or ()),
            **{name: torch.stack([getattr(s, name) for s in samples]) for name in names},
            "captions": [sample.caption for sample in samples],
            "metadata": [sample.metadata for sample in samples],
        }


@dataclass(kw_only=True)
class PreencodedVideoSample(Sample):
    """One clip in its stored dtypes.

    latents [C, T, h, w] normalised; prompt_embeds [L, D], zeros from `text_length` on. For
    image-to-video first_frame_latents [C, T, h, w] normalised, and clip_feature [N, V] where the
    model has an image encoder. metadata is the json member.
    """

    latents: torch.Tensor
    prompt_embeds: torch.Tensor
    text_length: int
    first_frame_latents: torch.Tensor | None = None
    clip_feature: torch.Tensor | None = None
    caption: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)


@stateless
def cook_preencoded_video(sample: dict[str, Any]) -> PreencodedVideoSample:
    """The clip that the members' bytes hold. ValueError when a required member is missing, or the
    json member does not say `text_length`."""
    metadata = json.loads(sample.get("json", b"{}"))
    if not isinstance(metadata.get("text_length"), int):
        raise ValueError(f"sample {sample['__key__']}: its json member has no text_length")
    return PreencodedVideoSample(
        **basic_sample_keys(sample),
        **_tensors(sample, VIDEO_TENSORS, optional=FIRST_FRAME_TENSORS),
        text_length=metadata["text_length"],
        caption=sample.get("caption.txt", b"").decode("utf-8"),
        metadata=metadata,
    )


class PreencodedVideoTaskEncoder(
    DefaultTaskEncoder[PreencodedVideoSample, PreencodedVideoSample, dict[str, Any], dict[str, Any]]
):
    """Reads `encoding: preencoded_video` datasets, of one or many buckets, into dicts."""

    decoder = None
    cookers = (Cooker(cook_preencoded_video, has_subflavors={"encoding": "preencoded_video"}),)

    def batch_group_criterion(self, sample: PreencodedVideoSample) -> tuple[tuple[int, ...], None]:
        """Clips of one latent shape go into one batch, of the size that the loader was given."""
        return tuple(sample.latents.shape), None

    @stateless
    def batch(self, samples: list[PreencodedVideoSample]) -> dict[str, Any]:
        """`latents` [B, C, T, h, w], `prompt_embeds` [B, L, D], and `text_mask`, bool [B, L], true
        where there is a token.

        Of image-to-video datasets also `first_frame_latents` [B, C, T, h, w] and, if there is one,
        `clip_feature` [B, N, V]; always `captions`, `metadata` and energon's `__key__` (lists of B)
        and `__sources__`. Nothing is cast.
        """
        names = VIDEO_TENSORS + tuple(
            name for name in FIRST_FRAME_TENSORS if getattr(samples[0], name) is not None
        )
        lengths = torch.tensor([sample.text_length for sample in samples])
        places = torch.arange(samples[0].prompt_embeds.shape[0])
        return {
            "__key__": [sample.__key__ for sample in samples],
            "__sources__": tuple(source for s in samples for source in s.__sources__ or ()),
            **{name: torch.stack([getattr(s, name) for s in samples]) for name in names},
            "text_mask": places[None, :] < lengths[:, None],
            "captions": [sample.caption for sample in samples],
            "metadata": [sample.metadata for sample in samples],
        }


@dataclass(kw_only=True)
class RawSample(Sample):
    """One sample of a raw dataset: image [3, H, W] uint8 in sRGB; metadata is the json member."""

    image: torch.Tensor
    caption: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)


@stateless
def cook_raw(sample: dict[str, Any]) -> RawSample:
    """The sample with its picture decoded, whichever of `PICTURES` its member is. ValueError when
    there is none."""
    name = next((name for name in PICTURES if name in sample), None)
    if name is None:
        raise ValueError(f"sample {sample['__key__']}: no member {', '.join(PICTURES)}")
    with Image.open(io.BytesIO(sample[name])) as picture:
        pixels = np.array(picture.convert("RGB"))
    return RawSample(
        **basic_sample_keys(sample),
        image=torch.from_numpy(pixels).permute(2, 0, 1).contiguous(),
        caption=sample.get("txt", b"").decode("utf-8"),
        metadata=json.loads(sample.get("json", b"{}")),
    )


class RawTaskEncoder(DefaultTaskEncoder[RawSample, RawSample, dict[str, Any], dict[str, Any]]):
    """Reads `encoding: raw` datasets, of one or many buckets, into dicts.

    Primus's own RawDiffusionTaskEncoder looks for a member named `images`, which neither its writer
    nor ours makes: on these datasets its batches hold None.
    """

    decoder = None
    cookers = (Cooker(cook_raw, has_subflavors={"encoding": "raw"}),)

    def batch_group_criterion(self, sample: RawSample) -> tuple[tuple[int, ...], None]:
        """Pictures of one size go into one batch, of the size that the loader was given."""
        return tuple(sample.image.shape), None

    @stateless
    def batch(self, samples: list[RawSample]) -> dict[str, Any]:
        """`images` [B, 3, H, W] uint8; `captions`, `metadata` and energon's `__key__` (lists of B)
        and `__sources__`."""
        return {
            "__key__": [sample.__key__ for sample in samples],
            "__sources__": tuple(source for s in samples for source in s.__sources__ or ()),
            "images": torch.stack([sample.image for sample in samples]),
            "captions": [sample.caption for sample in samples],
            "metadata": [sample.metadata for sample in samples],
        }


def resample_latents(
    batch: dict[str, Any],
    *,
    scaling_factor: float,
    shift_factor: float,
    generator: torch.Generator | None = None,
) -> torch.Tensor:
    """Latents [B, C, h, w] drawn anew from the posterior, scaled, in the stored dtype.

    For datasets of `vae_latent_mode: resample`. `(mean + exp(logvar / 2) * eps - shift) * scale`,
    computed in float32; the factors are those of the VAE's config (dataset.json has them).
    """
    mean = batch["mean"].float()
    noise = torch.randn(mean.shape, generator=generator, device=mean.device, dtype=mean.dtype)
    drawn = mean + torch.exp(0.5 * batch["logvar"].float()) * noise
    return ((drawn - shift_factor) * scaling_factor).to(batch["mean"].dtype)
