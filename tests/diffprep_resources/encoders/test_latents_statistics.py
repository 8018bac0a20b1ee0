"""Between raw and normalised latents of a video VAE."""

import numpy as np

from diffprep_resources.encoders.latents_statistics import LatentsStatistics

STATISTICS = LatentsStatistics((0.5, -1.0), (2.0, 0.25))


def test_each_channel_is_shifted_and_scaled_by_its_own_numbers() -> None:
    raw = np.array([0.5, 4.5, -1.0, -0.5], np.float32).reshape(2, 2, 1, 1)
    normalised = STATISTICS.normalised(raw)
    assert normalised.dtype == np.float32
    assert normalised.ravel().tolist() == [0.0, 2.0, 0.0, 2.0]
    assert STATISTICS.raw(normalised).ravel().tolist() == raw.ravel().tolist()
