"""Weights to start training from: a VAE that keeps the mean colour of each 8 by 8 square.

Every residual branch starts at zero, so that the network is a chain of convolutions: the encoder
averages, the decoder interpolates. A group norm would divide by each picture's own contrast; here
it sees two large constants of opposite sign beside the colours, and so divides by nearly the same
for every picture. After it, silu(x) - silu(-x) = x gives the colours back exactly.
"""

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from diffusers.models.autoencoders.autoencoder_kl import AutoencoderKL

# The two constants; colours lie in [-1, 1].
ANCHOR = 8.0
# Latents are this times the colour, so that the posterior's noise is small beside them.
GAIN = 2.0
LOG_VARIANCE = -5.0
# What the weights that do nothing yet are scaled by.
QUIET = 0.3


def start_linear(model: "AutoencoderKL", *, latent_mean: float) -> None:
    """Set the weights; those that take no part stay random, and smaller."""
    import torch

    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("conv2.weight"):
                parameter.zero_()
            elif name.endswith(("conv_shortcut.weight", "conv.weight")):
                parameter.mul_(QUIET)
        _start_encoder(model, latent_mean=latent_mean)
        _start_decoder(model, latent_mean=latent_mean)


def _start_encoder(model: "AutoencoderKL", *, latent_mean: float) -> None:
    channels = model.get_parameter("encoder.conv_norm_out.weight").numel()
    _pass_colours(model, "encoder.conv_in", centre=1.0)
    for level in range(3):
        name = f"encoder.down_blocks.{level}.downsamplers.0.conv"
        _pass_colours(model, name, centre=0.0)
        weight = model.get_parameter(f"{name}.weight")
        for colour in range(3):
            weight[colour, colour, :2, :2] = 0.25
        if level:
            _pass_colours(model, f"encoder.down_blocks.{level}.resnets.0.conv_shortcut", centre=1.0)
    last = "encoder.down_blocks.3.resnets.0.conv_shortcut"
    _oppose(model, last)
    _norm(model, "encoder.conv_norm_out", channels=channels)
    out, bias = (model.get_parameter(f"encoder.conv_out.{part}") for part in ("weight", "bias"))
    half = out.shape[0] // 2
    out[half:].zero_()
    bias[half:] = LOG_VARIANCE
    bias[:half] = latent_mean
    out[:3].zero_()
    for colour in range(3):
        out[colour, colour, 1, 1] = GAIN
        out[colour, colour + 3, 1, 1] = -GAIN


def _start_decoder(model: "AutoencoderKL", *, latent_mean: float) -> None:
    channels = model.get_parameter("decoder.conv_norm_out.weight").numel()
    _pass_colours(model, "decoder.conv_in", centre=1 / GAIN)
    model.get_parameter("decoder.conv_in.bias")[:3] = -latent_mean / GAIN
    for level in range(3):
        name = f"decoder.up_blocks.{level}.upsamplers.0.conv"
        _pass_colours(model, name, centre=0.0)
        weight = model.get_parameter(f"{name}.weight")
        tent = weight.new_tensor([0.25, 0.5, 0.25])
        for colour in range(3):
            weight[colour, colour] = tent[:, None] * tent
    for level in (1, 2):
        _pass_colours(model, f"decoder.up_blocks.{level}.resnets.0.conv_shortcut", centre=1.0)
    _oppose(model, "decoder.up_blocks.3.resnets.0.conv_shortcut")
    _norm(model, "decoder.conv_norm_out", channels=channels)
    out = model.get_parameter("decoder.conv_out.weight")
    out.zero_()
    model.get_parameter("decoder.conv_out.bias").zero_()
    for colour in range(3):
        out[colour, colour, 1, 1] = 1.0
        out[colour, colour + 3, 1, 1] = -1.0


def _pass_colours(model: "AutoencoderKL", name: str, *, centre: float) -> None:
    """The first three channels through a convolution, each alone, times `centre`."""
    weight = model.get_parameter(f"{name}.weight")
    weight[:3].zero_()
    model.get_parameter(f"{name}.bias")[:3] = 0.0
    middle = weight.shape[-1] // 2
    for colour in range(3):
        weight[colour, colour, middle, middle] = centre


def _oppose(model: "AutoencoderKL", name: str) -> None:
    """The colours, their negatives in the next three channels, and the two constants."""
    weight, bias = (model.get_parameter(f"{name}.{part}") for part in ("weight", "bias"))
    weight[:8].zero_()
    bias.zero_()
    for colour in range(3):
        weight[colour, colour] = 1.0
        weight[colour + 3, colour] = -1.0
    bias[6], bias[7] = ANCHOR, -ANCHOR


def _norm(model: "AutoencoderKL", name: str, *, channels: int) -> None:
    """The norm's gain that undoes its division by what is mostly the constants."""
    weight: torch.Tensor = model.get_parameter(f"{name}.weight")
    weight.fill_(math.sqrt(2 * ANCHOR**2 / channels))
