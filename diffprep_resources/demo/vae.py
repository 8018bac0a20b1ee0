"""The demo's VAE: the class, layout and channels of FLUX.1's, small, and trained on drawn pictures.

`vae.safetensors` beside this file holds its weights in float16 and, as text in the file's metadata,
its two factors; train_vae.py made it.
"""

import json
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from diffusers.models.autoencoders.autoencoder_kl import AutoencoderKL

LATENT_CHANNELS = 16
WEIGHTS_NAME = "vae.safetensors"
_METADATA_KEY = "diffprep"


def new_vae(*, scaling_factor: float = 1.0, shift_factor: float = 0.0) -> "AutoencoderKL":
    """The model with random weights: 16 latent channels, 8 pixels per latent along each side.

    No attention: its cost grows with the square of the picture, and drawn shapes do without.
    """
    from diffusers.models.autoencoders.autoencoder_kl import AutoencoderKL

    # As a dict: diffusers annotates the tuples as of length one.
    config: dict[str, Any] = {
        "latent_channels": LATENT_CHANNELS,
        "down_block_types": ("DownEncoderBlock2D",) * 4,
        "up_block_types": ("UpDecoderBlock2D",) * 4,
        "block_out_channels": (8, 16, 32, 64),
        "layers_per_block": 1,
        # One group: groups of two channels would take every picture's own colours away.
        "norm_num_groups": 1,
        "scaling_factor": scaling_factor,
        "shift_factor": shift_factor,
        "use_quant_conv": False,
        "use_post_quant_conv": False,
        "mid_block_add_attention": False,
    }
    return AutoencoderKL(**config)


def save_weights(
    path: Path, model: "AutoencoderKL", *, scaling_factor: float, shift_factor: float
) -> None:
    """Write the weights as float16 (half the file; no picture changes by more than 0.1 dB)."""
    import torch
    from safetensors.torch import save_file

    weights = {
        name: tensor.to(torch.float16).contiguous() for name, tensor in model.state_dict().items()
    }
    facts = {"scaling_factor": scaling_factor, "shift_factor": shift_factor}
    save_file(weights, path, metadata={_METADATA_KEY: json.dumps(facts, sort_keys=True)})


def trained_vae(path: Path | None = None) -> "AutoencoderKL":
    """The model with the weights of the package, or of another such file: float32, and with the
    factors that go with them."""
    import torch
    from safetensors import safe_open

    packaged = str(files("diffprep_resources.demo") / WEIGHTS_NAME)
    with safe_open(packaged if path is None else path, framework="pt") as file:
        facts = json.loads(file.metadata()[_METADATA_KEY])
        weights = {name: file.get_tensor(name).to(torch.float32) for name in file.keys()}  # noqa: SIM118
    model = new_vae(**facts)
    model.load_state_dict(weights)
    return model
