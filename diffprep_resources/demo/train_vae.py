"""Trains the demo's VAE on drawn pictures: `python -m diffprep_resources.demo.train_vae OUT`.

Some six minutes on one core. The result, `vae.safetensors`, is part of the package; nothing but
a change of the architecture or of the pictures needs another.
"""

import argparse
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from PIL import Image

from diffprep_resources.demo.linear_start import start_linear
from diffprep_resources.demo.pictures import draw_picture
from diffprep_resources.demo.vae import LATENT_CHANNELS, new_vae, save_weights
from diffprep_resources.encoders.loading import quiet_libraries

if TYPE_CHECKING:
    import torch
    from diffusers.models.autoencoders.autoencoder_kl import AutoencoderKL

# Apart from those of `diffprep demo`, which are drawn with seed 0.
TRAIN_SEED, TEST_SEED = 7001, 7002
NUM_DRAWN = 240
# Where latents lie on average: far enough from 0 that a forgotten shift shows.
LATENT_MEAN = 1.5
KL_WEIGHT = 1e-5
ABSOLUTE_WEIGHT = 0.3
EDGE_WEIGHT = 0.3
AVERAGING = 0.998
# Added to the log variance in the end: training leaves so little noise that bfloat16 hides it.
WIDER = 3.0
NUM_STEPS = 2000
# Sides of the square crops in pixels, each with its batch size: about as many pixels a step. Group
# norms average over the whole crop, so the model must see small ones and large ones.
CROPS = ((64, 4), (96, 2), (128, 1), (192, 1))


def train(
    *, num_steps: int = NUM_STEPS, num_pictures: int = NUM_DRAWN, seed: int = 0
) -> "AutoencoderKL":
    """The trained VAE, the average of its last few hundred steps; prints what it comes to."""
    import torch

    torch.manual_seed(seed)
    model = cast("AutoencoderKL", cast(Any, new_vae()).to(memory_format=torch.channels_last))
    start_linear(model, latent_mean=LATENT_MEAN)
    average = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    rng = np.random.default_rng(seed)
    pool = drawn(num_pictures, seed=TRAIN_SEED)
    test = drawn(12, seed=TEST_SEED)
    optimizer = torch.optim.Adam(model.parameters(), lr=1.0, betas=(0.9, 0.99))
    print(f"at the start: {psnr(model, test):.2f} dB")
    for step in range(num_steps):
        optimizer.param_groups[0]["lr"] = learning_rate(step, num_steps)
        loss = _loss(model, _pixels(_batch(pool, rng=rng)))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        with torch.no_grad():
            for name, tensor in model.state_dict().items():
                average[name].lerp_(tensor, 1 - AVERAGING)
        if step % 200 == 199 or step == num_steps - 1:
            print(
                f"step {step + 1}/{num_steps}: loss {loss.item():.4f}, {psnr(model, test):.2f} dB"
            )
    average["encoder.conv_out.bias"][LATENT_CHANNELS:] += WIDER
    model.load_state_dict(average)
    print(f"averaged: {psnr(model, test):.2f} dB")
    return model


def learning_rate(step: int, total: int) -> float:
    """A short rise, then half a cosine."""
    return 4e-4 * min(1.0, (step + 1) / 60) * (0.51 + 0.49 * math.cos(math.pi * step / total))


def drawn(count: int, *, seed: int) -> list[np.ndarray]:
    """Pictures uint8 [H, W, 3] with a short side of 192 to 320 pixels."""
    rng = np.random.default_rng(seed)
    pictures = []
    for index in range(count):
        image = draw_picture(index, seed=seed).image.convert("RGB")
        factor = int(rng.integers(192, 321)) / min(image.size)
        size = (math.ceil(image.width * factor), math.ceil(image.height * factor))
        pictures.append(np.array(image.resize(size, Image.Resampling.LANCZOS)))
    return pictures


def factors(model: "AutoencoderKL", pictures: list[np.ndarray]) -> tuple[float, float]:
    """(scaling_factor, shift_factor) that give latents of the pictures mean 0 and variance 1."""
    import torch

    with torch.inference_mode():
        means = [
            cast(Any, model.encode(_pixels(picture[None, :160, :160]))).latent_dist.mean
            for picture in pictures
        ]
    values = torch.cat([mean.flatten() for mean in means])
    return round(1 / values.std().item(), 4), round(values.mean().item(), 4)


def psnr(model: "AutoencoderKL", pictures: list[np.ndarray]) -> float:
    """Mean PSNR of the pictures, encoded and decoded, in dB."""
    import torch

    found = []
    with torch.inference_mode():
        for picture in pictures:
            pixels = _pixels(picture[None, :160, :160])
            again = model.decode(cast(Any, model.encode(pixels)).latent_dist.mean)
            error = (cast(Any, again).sample.clamp(-1, 1) - pixels).square().mean().item() / 4
            found.append(-10 * math.log10(error))
    return sum(found) / len(found)


def _loss(model: "AutoencoderKL", pixels_BCHW: "torch.Tensor") -> "torch.Tensor":
    """Squared and absolute error of pixels, absolute error of their differences, and the
    posterior's distance from the normal distribution around LATENT_MEAN; means over all."""
    import torch

    posterior = cast(Any, model.encode(pixels_BCHW)).latent_dist
    z_BChw = posterior.mean + posterior.std * torch.randn_like(posterior.mean)
    error = cast(Any, model.decode(z_BChw)).sample - pixels_BCHW
    edges = error.diff(dim=-1).abs().mean() + error.diff(dim=-2).abs().mean()
    distance = (posterior.mean - LATENT_MEAN).square() + posterior.var - 1 - posterior.logvar
    near = error.square().mean() + ABSOLUTE_WEIGHT * error.abs().mean()
    return near + EDGE_WEIGHT * edges + KL_WEIGHT * 0.5 * distance.mean()


def _batch(pool: list[np.ndarray], *, rng: np.random.Generator) -> np.ndarray:
    side, batch_size = CROPS[rng.integers(len(CROPS))]
    return np.stack([_crop(pool, side, rng=rng) for _ in range(batch_size)])


def _crop(pool: list[np.ndarray], side: int, *, rng: np.random.Generator) -> np.ndarray:
    """A square out of some picture, or of soft noise, turned, its colours mixed up."""
    if rng.random() < 0.3:
        cells = int(rng.integers(2, 7))
        small = Image.fromarray(rng.integers(0, 256, (cells, cells, 3), dtype=np.uint8))
        crop = np.array(small.resize((side, side), Image.Resampling.BICUBIC))
    else:
        picture = pool[rng.integers(len(pool))]
        top = rng.integers(picture.shape[0] - side + 1)
        left = rng.integers(picture.shape[1] - side + 1)
        crop = picture[top : top + side, left : left + side]
    if rng.random() < 0.5:
        crop = crop[..., rng.permutation(3)]
    if rng.random() < 0.25:
        low, high = sorted(rng.uniform(0, 255, 2))
        crop = np.round(low + (high - low) * (crop / 255.0)).astype(np.uint8)
    if rng.random() < 0.15:
        crop = 255 - crop
    return np.rot90(crop, int(rng.integers(4)))


def _pixels(pixels_BHWC: np.ndarray) -> "torch.Tensor":
    """float32 [B, 3, H, W] in [-1, 1]."""
    import torch

    pixels = torch.from_numpy(np.ascontiguousarray(pixels_BHWC)).permute(0, 3, 1, 2)
    return pixels.to(torch.float32) / 127.5 - 1


def main() -> None:
    """Trains, chooses the factors, and writes the file."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("out", type=Path, help="the safetensors file to write")
    out = parser.parse_args().out
    with quiet_libraries():
        model = train()
        scaling_factor, shift_factor = factors(model, drawn(60, seed=TEST_SEED))
    save_weights(out, model, scaling_factor=scaling_factor, shift_factor=shift_factor)
    print(f"{out}: {out.stat().st_size} bytes, scale {scaling_factor}, shift {shift_factor}")


if __name__ == "__main__":
    main()
