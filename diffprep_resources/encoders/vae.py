"""AutoencoderKL as a latents encoder.

Shapes: B batch, H and W pixel sides, C latent channels, h and w latent sides.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from diffprep_resources.encoders.base import (
    DtypeName,
    EncoderSettings,
    LatentsEncoder,
    RowLayout,
)
from diffprep_resources.encoders.components import Component, Files
from diffprep_resources.encoders.loading import load_model, use_exact_arithmetic
from diffprep_resources.encoders.noise import sample_noise
from diffprep_resources.errors import ModelError, SettingError

if TYPE_CHECKING:
    import torch
    from diffusers.models.autoencoders.autoencoder_kl import AutoencoderKL


@dataclass(frozen=True, slots=True)
class VaeFacts:
    """What the VAE's config says. `downsampling` is pixels per latent along each side."""

    latent_channels: int
    downsampling: int
    scaling_factor: float
    shift_factor: float

    def latents_layout(
        self, width: int, height: int, *, num_frames: int, settings: EncoderSettings
    ) -> RowLayout:
        """Tensors of one picture. The model packs latents 2x2, so their sides must be even."""
        if num_frames != 1:
            raise SettingError(
                f"this VAE encodes single pictures, got clips of {num_frames} frames; "
                "model.model_path must be a model that makes clips (Wan)"
            )
        multiple = 2 * self.downsampling
        if min(width, height) < multiple or width % multiple or height % multiple:
            raise SettingError(
                f"picture sides must be multiples of {multiple} (latents with even sides), got "
                f"{width}x{height}; image.image_size, max_size and buckets.tiers decide them"
            )
        shape = (self.latent_channels, height // self.downsampling, width // self.downsampling)
        names = ["latents"]
        if settings.vae_latent_mode == "resample":
            names += ["mean", "logvar"]
        return {name: (settings.dtype, shape) for name in names}


def vae_facts(files: Files) -> VaeFacts:
    """Facts of an AutoencoderKL. Raises ModelError for another class or a value of no use."""
    config = files.config()
    class_name = config.get("_class_name")
    if class_name != "AutoencoderKL":
        raise ModelError(
            f"VAE: {files} must be an AutoencoderKL, got {class_name}; "
            "see model.model_path and model.vae_path"
        )
    return VaeFacts(
        latent_channels=int(_number(config, "latent_channels", default=4, files=files)),
        downsampling=2 ** (len(config.get("block_out_channels") or [64]) - 1),
        scaling_factor=_number(config, "scaling_factor", default=0.18215, files=files),
        shift_factor=_number(config, "shift_factor", default=0.0, files=files),
    )


def _number(config: Mapping[str, Any], key: str, *, default: float, files: Files) -> float:
    """The config's number; `default` is AutoencoderKL's own, or 0 for the shift that FLUX added."""
    number = config.get(key)
    if number is None:
        return default
    if not isinstance(number, int | float) or isinstance(number, bool):
        raise ModelError(f"VAE: {files}: {key} must be a number, got {number!r}")
    return number


class KlLatentsEncoder(LatentsEncoder):
    """Latents `scaling_factor * (z - shift_factor)`; z is mean + std * noise, or the mode.

    The VAE runs in the stored dtype; drawing and scaling run in float32 and are rounded once.
    """

    def __init__(
        self, component: Component, *, facts: VaeFacts, settings: EncoderSettings, device: str
    ) -> None:
        use_exact_arithmetic()
        self._folder = component.weights.folder()
        self._facts = facts
        self._settings = settings
        self._device = device
        self._models: dict[DtypeName, AutoencoderKL] = {}
        self._model(settings.dtype)

    def row_layout(self, width: int, height: int, *, num_frames: int = 1) -> RowLayout:
        return self._facts.latents_layout(
            width, height, num_frames=num_frames, settings=self._settings
        )

    def encode(
        self, pixels: np.ndarray, *, sample_ids: Sequence[int], float32: bool = False
    ) -> dict[str, "torch.Tensor"]:
        import torch

        _check_pixels(pixels, num_ids=len(sample_ids))
        _, height, width, _ = pixels.shape
        layout = self.row_layout(width, height)
        dtype: DtypeName = "float32" if float32 else self._settings.dtype
        with torch.inference_mode():
            pixels_BCHW = self._scaled_pixels(pixels).to(getattr(torch, dtype))
            posterior = cast(Any, self._model(dtype).encode(pixels_BCHW)).latent_dist
            tensors = self._latents(posterior.mean.float(), posterior.logvar.float(), sample_ids)
            stored = {
                name: tensors[name].to("cpu", getattr(torch, layout[name][0])) for name in layout
            }
        # Cloned outside of inference mode: ordinary tensors, each with a storage of its own.
        return {name: tensor.contiguous().clone() for name, tensor in stored.items()}

    def close(self) -> None:
        self._models.clear()

    def _latents(
        self, mean_BChw: "torch.Tensor", logvar_BChw: "torch.Tensor", sample_ids: Sequence[int]
    ) -> dict[str, "torch.Tensor"]:
        """All in float32: the raw posterior and the scaled latents."""
        import torch

        z_BChw = mean_BChw
        if self._settings.vae_latent_mode == "presampled":
            _, *shape = mean_BChw.shape
            noise = sample_noise(tuple(shape), seed=self._settings.seed, sample_ids=sample_ids).to(
                mean_BChw.device
            )
            z_BChw = mean_BChw + torch.exp(0.5 * logvar_BChw) * noise
        latents_BChw = (z_BChw - self._facts.shift_factor) * self._facts.scaling_factor
        return {"latents": latents_BChw, "mean": mean_BChw, "logvar": logvar_BChw}

    def _scaled_pixels(self, pixels_BHWC: np.ndarray) -> "torch.Tensor":
        """float32 (B, 3, H, W) in [-1, 1], as diffusers' VaeImageProcessor: 2 * (x / 255) - 1."""
        import torch

        pixels = (
            torch.tensor(np.ascontiguousarray(pixels_BHWC)).to(self._device).permute(0, 3, 1, 2)
        )
        # A divisor on the device divides; a Python number would be multiplied by its reciprocal.
        full = torch.tensor(255.0, device=self._device)
        return 2.0 * (pixels.to(torch.float32) / full) - 1.0

    def _model(self, dtype: DtypeName) -> "AutoencoderKL":
        """The VAE in this dtype, loaded from its files at the first use, so float32 is exact."""
        if dtype not in self._models:
            from diffusers.models.autoencoders.autoencoder_kl import AutoencoderKL

            model = load_model(
                AutoencoderKL.from_pretrained,
                folder=self._folder,
                dtype=dtype,
                label="VAE",
                low_cpu_mem_usage=False,
            )
            self._models[dtype] = cast(AutoencoderKL, model.to(self._device))
        return self._models[dtype]


def _check_pixels(pixels_BHWC: np.ndarray, *, num_ids: int) -> None:
    shape = pixels_BHWC.shape
    if pixels_BHWC.dtype.name != "uint8" or len(shape) != 4 or shape[3] != 3:
        raise ValueError(f"pixels must be uint8 (B, H, W, 3), got {pixels_BHWC.dtype} {shape}")
    if shape[0] != num_ids:
        raise ValueError(f"one sample id per row: got {shape[0]} rows and {num_ids} ids")
