"""AutoencoderKLWan both ways, for looking at clips' latents that are stored already. Float32.

Shapes: T frames, H and W pixel sides, C latent channels, t h w latent frames and sides.
"""

import numpy as np

from diffprep_resources.encoders.components import Component
from diffprep_resources.encoders.latents_statistics import LatentsStatistics
from diffprep_resources.encoders.wan_vae import WanVae, wan_vae_facts


class WanCodec:
    """Clips to latents and back. Latents are raw, as FastVideo's files have them, unless said."""

    def __init__(self, component: Component, *, tiling: bool = False, device: str) -> None:
        self.name = str(component.weights)
        self.facts = wan_vae_facts(component.weights)
        self._vae = WanVae(component, facts=self.facts, tiling=tiling, device=device)

    def mean(self, pixels_THWC: np.ndarray) -> np.ndarray:
        """The posterior's mean, float32 [C, t, h, w], of uint8 pixels."""
        import torch

        with torch.inference_mode():
            latents_BCthw = self._vae.mean(self._vae.scaled(pixels_THWC[None]))
            return latents_BCthw[0].cpu().numpy()

    def decoded(self, latents_Cthw: np.ndarray) -> np.ndarray:
        """The clip, float32 [T, H, W, 3] in [-1, 1], of raw latents."""
        import torch

        # A copy: rows read of a file are not writable, which torch warns of.
        batch = torch.from_numpy(np.array(latents_Cthw, dtype=np.float32))[None]
        with torch.inference_mode():
            return self._vae.decoded(batch)[0].permute(1, 2, 3, 0).cpu().numpy()

    def normalised(self, latents_Cthw: np.ndarray) -> np.ndarray:
        """What a trainer's model sees of raw latents: (latents - mean) / deviation by channel."""
        return self._statistics.normalised(latents_Cthw)

    def raw(self, normalised_Cthw: np.ndarray) -> np.ndarray:
        """The latents that `normalised` made these of, but for the last bits."""
        return self._statistics.raw(normalised_Cthw)

    @property
    def _statistics(self) -> LatentsStatistics:
        return LatentsStatistics(self.facts.latents_mean, self.facts.latents_std)
