"""AutoencoderKL both ways, in float32, for looking at latents that are stored already.

Shapes: B batch, H and W pixel sides, C latent channels, h and w latent sides.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from diffprep_resources.encoders.base import EncoderSettings
from diffprep_resources.encoders.components import Component, ComponentFinder
from diffprep_resources.encoders.flux import VAE_PLACE
from diffprep_resources.encoders.loading import load_model, use_exact_arithmetic
from diffprep_resources.encoders.vae import VaeFacts, vae_facts
from diffprep_resources.errors import ModelError
from diffprep_resources.hub.models import ModelHub

if TYPE_CHECKING:
    import torch


def find_vae(
    reference: str, *, hub: ModelHub, recorded: Mapping[str, Any] | None = None
) -> Component:
    """The VAE of a diffusers repository, or in its own folder; fetched only once it is loaded.

    `recorded` is the identity that a dataset.json has of it: ModelError when the files found are
    others, or when there are none.
    """
    settings = EncoderSettings(model_path=reference, vae_path=reference)
    component = ComponentFinder(settings, hub).find(VAE_PLACE)
    found = component.identity().weights
    if recorded is not None and found.revision != recorded["revision"]:
        raise ModelError(
            f"VAE: {component.weights} is not the one that encoded this dataset any more: found "
            f"{found.revision}, recorded {recorded['revision']}; name the right one with --vae"
        )
    return component


class VaeCodec:
    """Pictures to latents' means and back, as the VAE itself scales them."""

    def __init__(self, component: Component, *, device: str) -> None:
        use_exact_arithmetic()
        self.name = str(component.weights)
        self.facts: VaeFacts = vae_facts(component.weights)
        self._device = device
        from diffusers.models.autoencoders.autoencoder_kl import AutoencoderKL

        model = load_model(
            AutoencoderKL.from_pretrained,
            folder=component.weights.folder(),
            dtype="float32",
            label="VAE",
            low_cpu_mem_usage=False,
        )
        self._model = cast(Any, model).to(device)

    def mean(self, pixels_HWC: np.ndarray) -> np.ndarray:
        """The posterior's mean, float32 [C, h, w], of a picture that should lie in [-1, 1]."""
        import torch

        with torch.inference_mode():
            posterior = self._model.encode(self._batch(pixels_HWC.transpose(2, 0, 1))).latent_dist
            return posterior.mean[0].cpu().numpy()

    def decoded(self, z_Chw: np.ndarray) -> np.ndarray:
        """The picture, float32 [H, W, 3], of unscaled latents; about in [-1, 1], not clipped."""
        import torch

        with torch.inference_mode():
            return self._model.decode(self._batch(z_Chw)).sample[0].permute(1, 2, 0).cpu().numpy()

    def unscaled(self, latents: np.ndarray) -> np.ndarray:
        """What the VAE gave, of latents that are stored as scale * (z - shift)."""
        return latents / self.facts.scaling_factor + self.facts.shift_factor

    def _batch(self, array: np.ndarray) -> "torch.Tensor":
        import torch

        row = np.ascontiguousarray(array, dtype=np.float32)
        return torch.from_numpy(row).unsqueeze(0).to(self._device)
