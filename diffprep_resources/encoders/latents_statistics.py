"""Between a video VAE's raw latents and the normalised ones that a model is trained on."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class LatentsStatistics:
    """Mean and deviation of the latents by channel, as the VAE's config gives them."""

    mean: tuple[float, ...]
    deviation: tuple[float, ...]

    def normalised(self, latents_Cthw: np.ndarray) -> np.ndarray:
        """What a trainer's model sees of raw latents, float32: (latents - mean) / deviation."""
        return (latents_Cthw - _channels(self.mean)) * (np.float32(1) / _channels(self.deviation))

    def raw(self, normalised_Cthw: np.ndarray) -> np.ndarray:
        """The latents that `normalised` made these of, but for the last bits."""
        return normalised_Cthw * _channels(self.deviation) + _channels(self.mean)


def _channels(values: tuple[float, ...]) -> np.ndarray:
    return np.array(values, np.float32).reshape(-1, 1, 1, 1)
