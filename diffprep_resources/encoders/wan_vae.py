"""AutoencoderKLWan over clips, and over first frames followed by nothing. Float32 throughout.

What they must equal is, on the same files, `vae.encode(x).latent_dist.mode()` and the condition of
WanImageToVideoPipeline.prepare_latents.
Shapes: B batch, T frames, H and W pixel sides, C latent channels, t h w latent frames and sides.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from diffprep_resources.compute.batches import is_out_of_memory
from diffprep_resources.encoders.base import FirstFrameEncoder, LatentsEncoder, RowLayout
from diffprep_resources.encoders.components import Component, Files
from diffprep_resources.encoders.loading import load_model, use_exact_arithmetic
from diffprep_resources.errors import ModelError, SettingError

if TYPE_CHECKING:
    import torch

_CLASS = "AutoencoderKLWan"


@dataclass(frozen=True, slots=True)
class WanVaeFacts:
    """What the VAE's config says. Downsampling is pixels per latent along a side, and frames per
    latent frame after the first."""

    latent_channels: int
    downsampling: int
    downsampling_t: int
    latents_mean: tuple[float, ...]
    latents_std: tuple[float, ...]

    @property
    def size_multiple(self) -> int:
        """The transformer takes latents in patches of 2 by 2."""
        return 2 * self.downsampling

    def layout(self, name: str, width: int, height: int, *, num_frames: int) -> RowLayout:
        """One tensor [C, t, h, w] of that name. The VAE would drop frames and pixels beyond what
        it can use, without a word."""
        multiple, step = self.size_multiple, self.downsampling_t
        if min(width, height) < multiple or width % multiple or height % multiple:
            raise SettingError(
                f"clip sides must be multiples of {multiple}, got {width}x{height}; "
                f"{_nearest(width, multiple)}x{_nearest(height, multiple)} is nearest "
                "(video.max_width, video.max_height)"
            )
        if num_frames < 1 or (num_frames - 1) % step:
            nearest = step * max(0, round((num_frames - 1) / step)) + 1
            raise SettingError(
                f"a clip must have {step}k + 1 frames, got {num_frames}; {nearest} is nearest "
                "(video.num_frames)"
            )
        frames = (num_frames - 1) // step + 1
        shape = (
            self.latent_channels,
            frames,
            height // self.downsampling,
            width // self.downsampling,
        )
        return {name: ("float32", shape)}


def wan_vae_facts(files: Files) -> WanVaeFacts:
    """Facts of an AutoencoderKLWan; Wan 2.1's where its config is silent. Raises ModelError."""
    config = files.config()
    if config.get("_class_name") != _CLASS:
        raise ModelError(
            f"VAE: {files} must be an {_CLASS}, got {config.get('_class_name')}; "
            "see model.model_path and model.vae_path"
        )
    channels = config.get("z_dim", 16)
    statistics = [config.get(name) for name in ("latents_mean", "latents_std")]
    for name, values in zip(("latents_mean", "latents_std"), statistics, strict=True):
        if not isinstance(values, list) or len(values) != channels:
            raise ModelError(f"VAE: {files}: {name} must be a list of {channels} numbers")
    mean, std = (tuple(float(value) for value in values or ()) for values in statistics)
    return WanVaeFacts(
        latent_channels=channels,
        downsampling=config.get("scale_factor_spatial") or 8,
        downsampling_t=config.get("scale_factor_temporal") or 4,
        latents_mean=mean,
        latents_std=std,
    )


class WanVae:
    """The loaded model with its way from pixels to the posterior's mean, and back."""

    def __init__(
        self, component: Component, *, facts: WanVaeFacts, tiling: bool, device: str
    ) -> None:
        from diffusers.models.autoencoders.autoencoder_kl_wan import AutoencoderKLWan

        use_exact_arithmetic()
        self.facts = facts
        self.device = device
        self._tiling = tiling
        model = load_model(
            AutoencoderKLWan.from_pretrained,
            folder=component.weights.folder(),
            dtype="float32",
            label="VAE",
            low_cpu_mem_usage=False,
        )
        self._model = cast(Any, model).to(device)
        if tiling:
            self._model.enable_tiling()

    def scaled(self, pixels_BTHWC: np.ndarray) -> "torch.Tensor":
        """float32 (B, 3, T, H, W) in [-1, 1] on the device: 2 * (x / 255) - 1."""
        import torch

        pixels = torch.from_numpy(np.ascontiguousarray(pixels_BTHWC)).to(self.device)
        # A divisor on the device divides; a Python number would be multiplied by its reciprocal.
        full = torch.tensor(255.0, device=self.device)
        return 2.0 * (pixels.permute(0, 4, 1, 2, 3).to(torch.float32) / full) - 1.0

    def mean(self, pixels_BCTHW: "torch.Tensor") -> "torch.Tensor":
        """The posterior's mean (B, C, t, h, w), raw. Raises ModelError naming the way out where a
        single clip finds no memory."""
        try:
            return self._model.encode(pixels_BCTHW).latent_dist.mode()
        except Exception as error:
            batch, _, frames, height, width = pixels_BCTHW.shape
            if batch > 1 or not is_out_of_memory(error):
                raise
            raise ModelError(
                f"out of memory on {self.device} with one clip of {frames} frames of "
                f"{width}x{height}; {self._way_out()}"
            ) from error

    def decoded(self, latents_BCthw: "torch.Tensor") -> "torch.Tensor":
        """float32 (B, 3, T, H, W), clipped to [-1, 1], of the VAE's own latents."""
        return self._model.decode(latents_BCthw.to(self.device)).sample

    def _way_out(self) -> str:
        if self._tiling:
            return "take fewer or smaller frames (video.num_frames, max_width, max_height)"
        return (
            "video.vae_tiling: true needs less (it changes latents, so all are encoded anew), as "
            "do fewer or smaller frames (video.num_frames, max_width, max_height)"
        )


class WanLatentsEncoder(LatentsEncoder):
    """`latents` (C, t, h, w): the posterior's mean as the VAE gives it. Nothing is drawn."""

    def __init__(
        self, component: Component, *, facts: WanVaeFacts, tiling: bool, device: str
    ) -> None:
        self._facts = facts
        self._vae: WanVae | None = WanVae(component, facts=facts, tiling=tiling, device=device)

    def row_layout(self, width: int, height: int, *, num_frames: int = 1) -> RowLayout:
        return self._facts.layout("latents", width, height, num_frames=num_frames)

    def encode(
        self, pixels: np.ndarray, *, sample_ids: Sequence[int], float32: bool = False
    ) -> dict[str, "torch.Tensor"]:
        """`pixels` is (B, T, H, W, 3). It is float32 with or without `float32`."""
        import torch

        _check_pixels(pixels, dimensions=5)
        if len(sample_ids) != len(pixels):
            raise ValueError(f"one id per row: got {len(pixels)} rows and {len(sample_ids)} ids")
        _, num_frames, height, width, _ = pixels.shape
        self.row_layout(width, height, num_frames=num_frames)
        vae = _open(self._vae)
        with torch.inference_mode():
            latents_BCthw = vae.mean(vae.scaled(pixels)).to("cpu")
        # Cloned outside of inference mode: an ordinary tensor with a storage of its own.
        return {"latents": latents_BCthw.contiguous().clone()}

    def close(self) -> None:
        self._vae = None


class WanFirstFrameEncoder(FirstFrameEncoder):
    """`first_frame_latents` (C, t, h, w), normalised: of the frame and then zeros, which in
    [-1, 1] are a middle grey."""

    def __init__(
        self, component: Component, *, facts: WanVaeFacts, tiling: bool, device: str
    ) -> None:
        self._facts = facts
        self._vae: WanVae | None = WanVae(component, facts=facts, tiling=tiling, device=device)

    def row_layout(self, width: int, height: int, *, num_frames: int) -> RowLayout:
        return self._facts.layout("first_frame_latents", width, height, num_frames=num_frames)

    def encode(
        self, pixels_BHWC: np.ndarray, *, num_frames: int, float32: bool = False
    ) -> dict[str, "torch.Tensor"]:
        import torch

        _check_pixels(pixels_BHWC, dimensions=4)
        _, height, width, _ = pixels_BHWC.shape
        self.row_layout(width, height, num_frames=num_frames)
        vae = _open(self._vae)
        with torch.inference_mode():
            first = vae.scaled(pixels_BHWC[:, None])
            rest = first.new_zeros((*first.shape[:2], num_frames - 1, height, width))
            mean_BCthw = vae.mean(torch.cat([first, rest], dim=2))
            shift, deviation = (
                mean_BCthw.new_tensor(values).view(1, -1, 1, 1, 1)
                for values in (self._facts.latents_mean, self._facts.latents_std)
            )
            # Times the reciprocal, as prepare_latents has it: dividing differs in the last bit.
            normalised = ((mean_BCthw - shift) * (1.0 / deviation)).to("cpu")
        return {"first_frame_latents": normalised.contiguous().clone()}

    def close(self) -> None:
        self._vae = None


def _open(vae: WanVae | None) -> WanVae:
    if vae is None:
        raise RuntimeError("the encoder is closed")
    return vae


def _check_pixels(pixels: np.ndarray, *, dimensions: int) -> None:
    if pixels.dtype.name != "uint8" or pixels.ndim != dimensions or pixels.shape[-1] != 3:
        shape = "(B, T, H, W, 3)" if dimensions == 5 else "(B, H, W, 3)"
        raise ValueError(f"pixels must be uint8 {shape}, got {pixels.dtype} {pixels.shape}")


def _nearest(side: int, multiple: int) -> int:
    return multiple * max(1, round(side / multiple))
