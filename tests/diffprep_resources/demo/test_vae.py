from importlib.resources import files
from typing import Any, cast

import numpy as np
import pytest
import torch
from diffusers.models.autoencoders.autoencoder_kl import AutoencoderKL

from diffprep_resources.demo.train_vae import TEST_SEED, drawn, factors, psnr, train
from diffprep_resources.demo.vae import WEIGHTS_NAME, new_vae, save_weights, trained_vae

PACKAGED = files("diffprep_resources.demo") / WEIGHTS_NAME


@pytest.fixture(scope="module")
def model() -> AutoencoderKL:
    return trained_vae()


@pytest.fixture(scope="module")
def pictures() -> list[np.ndarray]:
    return drawn(6, seed=TEST_SEED)


def test_pictures_that_it_never_saw_come_back_recognisably(
    model: AutoencoderKL, pictures: list[np.ndarray]
) -> None:
    assert psnr(model, pictures) > 28


def test_its_factors_bring_latents_to_mean_0_and_variance_1(
    model: AutoencoderKL, pictures: list[np.ndarray]
) -> None:
    scale, shift = model.config.scaling_factor, model.config.shift_factor  # pyright: ignore[reportAttributeAccessIssue] "config" has what the class was made with
    assert abs(scale * shift) > 0.2, "a forgotten shift must show"
    with torch.no_grad():
        latents = torch.cat(
            [
                (cast(Any, model.encode(batch(picture))).latent_dist.mean - shift).flatten() * scale
                for picture in pictures
            ]
        )
    assert abs(latents.mean().item()) < 0.2
    assert 0.7 < latents.std().item() < 1.3


def batch(picture: np.ndarray) -> torch.Tensor:
    pixels = torch.from_numpy(np.ascontiguousarray(picture[:160, :160].transpose(2, 0, 1)))[None]
    return pixels.float() / 127.5 - 1


def test_the_packaged_file_is_small_and_part_of_the_package() -> None:
    assert len(PACKAGED.read_bytes()) < 2_000_000
    text = (files("diffprep_assets") / ".." / "pyproject.toml").read_text("utf-8")
    assert f'"diffprep_resources.demo" = ["{WEIGHTS_NAME}"]' in text


def test_the_script_trains_and_its_file_loads(
    tmp_path: Any, pictures: list[np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    untrained = psnr(new_vae(), pictures[:2])
    trained = train(num_steps=3, num_pictures=2)
    assert psnr(trained, pictures[:2]) != untrained
    scale, shift = factors(trained, pictures[:2])
    save_weights(tmp_path / WEIGHTS_NAME, trained, scaling_factor=scale, shift_factor=shift)
    loaded = trained_vae(tmp_path / WEIGHTS_NAME)
    assert loaded.config.scaling_factor == scale  # pyright: ignore[reportAttributeAccessIssue] "config" has what the class was made with
    assert abs(psnr(loaded, pictures[:2]) - psnr(trained, pictures[:2])) < 0.1
