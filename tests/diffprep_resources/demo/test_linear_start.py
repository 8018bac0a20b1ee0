import torch

from diffprep_resources.demo.linear_start import start_linear
from diffprep_resources.demo.train_vae import TEST_SEED, drawn, psnr
from diffprep_resources.demo.vae import new_vae


def test_the_start_keeps_the_colours_of_a_picture_whatever_the_random_weights() -> None:
    pictures = drawn(3, seed=TEST_SEED)
    for seed in (0, 1):
        torch.manual_seed(seed)
        model = new_vae()
        before = psnr(model, pictures)
        start_linear(model, latent_mean=1.5)
        assert psnr(model, pictures) > max(20, before + 8)
