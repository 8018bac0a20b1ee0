"""Readings of latents under a VAE that is a simple function: what was done to them is named."""

from collections.abc import Callable

import numpy as np
import pytest

from diffprep_assets.validate.latent_readings import best_reading, faults

SCALE, SHIFT = 0.4, 1.5


def encode(pixels: np.ndarray) -> np.ndarray:
    """A VAE of a kind: channels mixed, bent and pooled; [4, h, w]."""
    mixed = pixels @ np.array([[1.0, -0.6, 0.2, 0.1], [0.3, 1.0, -0.8, 0.2], [-0.2, 0.4, 1.0, 0.9]])
    bent = np.tanh(mixed + np.array([0.1, -0.2, 0.3, 0.0])) * 3 + SHIFT
    height, width = bent.shape[0] // 4, bent.shape[1] // 4
    return bent.reshape(height, 4, width, 4, 4).mean((1, 3)).transpose(2, 0, 1)


def pictures(count: int = 4) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    small = rng.integers(0, 256, (count, 4, 6, 3), dtype=np.uint8)
    return [np.kron(picture, np.ones((8, 8, 1), np.uint8)) for picture in small]


def right(picture: np.ndarray) -> np.ndarray:
    return SCALE * (encode(picture / 127.5 - 1) - SHIFT)


def judged(make: Callable[[np.ndarray], np.ndarray]) -> list[str]:
    shown = pictures()
    reading = best_reading([make(p) for p in shown], shown, encode=encode)
    return faults(reading, scale=SCALE, shift=SHIFT)


def test_right_latents_have_no_fault() -> None:
    assert judged(right) == []


def test_noise_and_rounding_are_no_fault() -> None:
    rng = np.random.default_rng(1)
    assert judged(lambda p: right(p) + rng.normal(0, 0.1, right(p).shape)) == []
    assert judged(lambda p: right(p).astype(np.float16).astype(np.float32)) == []


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda p: right(p) / SCALE, ["scale: .*by 1 instead of 0.4: the scaling factor was left"]),
        (lambda p: right(p) * SCALE, ["scale: .*applied twice"]),
        (lambda p: right(p) / SCALE**2, ["scale: .*divided"]),
        (lambda p: right(p) / SCALE * 0.18215, ["scale: .*0.1821.*Stable Diffusion 1"]),
        (lambda p: right(p) * 1.1, [r"scale: z was multiplied by 0.44 instead of 0.4$"]),
        (lambda p: right(p) + SCALE * SHIFT, ["shift: .*left out"]),
        (lambda p: right(p) + 2 * SCALE * SHIFT, ["shift: .*added instead of subtracted"]),
        (lambda p: right(p) + SCALE * SHIFT - SHIFT, ["shift: .*after scaling"]),
        (lambda p: encode(p / 127.5 - 1), ["scale: .*left out", "shift: .*left out"]),
        (lambda p: right(p[..., ::-1]), ["channel order: .*BGR"]),
        (lambda p: SCALE * (encode(p / 255) - SHIFT), [r"value range: pixels in \[0, 1\]"]),
        (lambda p: SCALE * (encode(1.0 * p) - SHIFT), ["value range: pixels in 0 to 255"]),
        (
            lambda p: SCALE * encode(p[..., ::-1] / 255),
            ["channel order", r"value range: .*\[0, 1\]", "shift: .*left out"],
        ),
    ],
)
def test_each_fault_is_named(make: Callable[[np.ndarray], np.ndarray], named: list[str]) -> None:
    import re

    found = judged(make)
    assert len(found) == len(named)
    for sentence, pattern in zip(found, named, strict=True):
        assert re.search(pattern, sentence), sentence


def test_latents_of_something_else_are_called_so() -> None:
    rng = np.random.default_rng(2)
    (sentence,) = judged(lambda p: rng.normal(size=right(p).shape))
    assert "not this VAE's encoding" in sentence


def test_grey_pictures_accuse_no_channel_order() -> None:
    grey = [np.repeat(p[..., :1], 3, axis=2) for p in pictures()]
    reading = best_reading([right(p) for p in grey], grey, encode=encode)
    assert faults(reading, scale=SCALE, shift=SHIFT) == []


def test_a_sample_of_another_picture_stands_out_by_itself() -> None:
    shown = pictures(8)
    stored = [right(p) for p in shown]
    stored[3] = right(np.rot90(shown[3], 2))
    reading = best_reading(stored, shown, encode=encode)
    assert max(range(8), key=lambda n: reading.by_sample[n]) == 3
    assert sorted(reading.by_sample)[-2] < 0.3
    assert reading.by_sample[3] > 0.5
