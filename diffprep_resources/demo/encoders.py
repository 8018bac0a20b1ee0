"""Tiny encoders of the real classes, laid out as a diffusers FluxPipeline repository.

For the demo and the tests, which need the real file layout, the real classes and a few seconds. The
VAE is a trained one; the others have random weights and encode nothing that means anything.
"""

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING

import xxhash

from diffprep_resources.demo.tokenizers import (
    CLIP_LENGTH,
    write_clip_tokenizer,
    write_t5_tokenizer,
)
from diffprep_resources.demo.vae import LATENT_CHANNELS, trained_vae
from diffprep_resources.encoders.loading import quiet_libraries

if TYPE_CHECKING:
    import torch

WIDTH = 32


def build_tiny_flux(folder: Path, *, seed: int = 0) -> None:
    """Write the repository: under 4 MB; the same seed gives the same weights on every machine."""
    folder.mkdir(parents=True, exist_ok=True)
    with quiet_libraries():
        _write_vae(folder / "vae", seed=seed)
        clip_ids = write_clip_tokenizer(folder / "tokenizer")
        _write_clip(folder / "text_encoder", ids=clip_ids, seed=seed)
        vocabulary_size = write_t5_tokenizer(folder / "tokenizer_2")
        _write_t5(folder / "text_encoder_2", vocabulary_size=vocabulary_size, seed=seed)
        _write_transformer(folder / "transformer", seed=seed)
        _write_index(folder)


def _write_vae(folder: Path, *, seed: int) -> None:
    """The trained VAE; another seed than 0 deals its latent channels anew, and nothing else."""
    import numpy as np
    import torch

    model = trained_vae()
    if seed:
        order = np.random.default_rng(seed).permutation(LATENT_CHANNELS)
        both = np.concatenate([order, LATENT_CHANNELS + order])
        with torch.no_grad():
            for name in ("encoder.conv_out.weight", "encoder.conv_out.bias"):
                parameter = model.get_parameter(name)
                parameter.copy_(parameter[both])
            read = model.get_parameter("decoder.conv_in.weight")
            read.copy_(read[:, order])
    model.save_pretrained(folder)


def _write_clip(folder: Path, *, ids: dict[str, int], seed: int) -> None:
    from transformers import CLIPTextConfig, CLIPTextModel

    config = CLIPTextConfig(
        vocab_size=len(ids),
        hidden_size=WIDTH,
        intermediate_size=2 * WIDTH,
        projection_dim=WIDTH,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=CLIP_LENGTH,
        bos_token_id=ids["<|startoftext|>"],
        eos_token_id=ids["<|endoftext|>"],
        pad_token_id=ids["<|endoftext|>"],
    )
    model = CLIPTextModel(config)
    fill_weights(model, seed=seed)
    model.save_pretrained(folder)


def _write_t5(folder: Path, *, vocabulary_size: int, seed: int) -> None:
    from transformers import T5Config, T5EncoderModel

    config = T5Config(
        vocab_size=vocabulary_size,
        d_model=WIDTH,
        d_kv=WIDTH // 4,
        d_ff=2 * WIDTH,
        num_layers=2,
        num_heads=4,
        feed_forward_proj="gated-gelu",
    )
    model = T5EncoderModel(config)
    fill_weights(model, seed=seed)
    model.save_pretrained(folder)


def _write_transformer(folder: Path, *, seed: int) -> None:
    """The model that a trainer would train: it makes the repository a whole pipeline."""
    from diffusers.models.transformers.transformer_flux import FluxTransformer2DModel

    model = FluxTransformer2DModel(
        in_channels=4 * LATENT_CHANNELS,
        num_layers=1,
        num_single_layers=1,
        attention_head_dim=16,
        num_attention_heads=2,
        joint_attention_dim=WIDTH,
        pooled_projection_dim=WIDTH,
        axes_dims_rope=(4, 6, 6),
    )
    fill_weights(model, seed=seed)
    model.save_pretrained(folder)


def _write_index(folder: Path) -> None:
    import diffusers
    from diffusers.schedulers.scheduling_flow_match_euler_discrete import (
        FlowMatchEulerDiscreteScheduler,
    )

    FlowMatchEulerDiscreteScheduler().save_pretrained(folder / "scheduler")
    index = {
        "_class_name": "FluxPipeline",
        "_diffusers_version": diffusers.__version__,
        "scheduler": ["diffusers", "FlowMatchEulerDiscreteScheduler"],
        "text_encoder": ["transformers", "CLIPTextModel"],
        "text_encoder_2": ["transformers", "T5EncoderModel"],
        "tokenizer": ["transformers", "CLIPTokenizer"],
        "tokenizer_2": ["transformers", "T5TokenizerFast"],
        "transformer": ["diffusers", "FluxTransformer2DModel"],
        "vae": ["diffusers", "AutoencoderKL"],
    }
    (folder / "model_index.json").write_text(json.dumps(index, indent=2) + "\n", "utf-8")


def fill_weights(model: "torch.nn.Module", *, seed: int) -> None:
    """Set matrices to uniform noise of variance 1 / inputs, biases to 0, gains to 1.

    From NumPy's integers: exact on every machine, which torch's normal numbers are not.
    """
    import numpy as np
    import torch

    half = 1 << 23
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim == 1:
                parameter.fill_(0.0 if name.endswith("bias") else 1.0)
                continue
            rng = np.random.default_rng([seed, xxhash.xxh32_intdigest(name.encode())])
            steps = rng.integers(-half, half, size=tuple(parameter.shape))
            bound = math.sqrt(3.0 / math.prod(parameter.shape[1:]))
            values = (steps * (bound / half)).astype(np.float32)
            parameter.copy_(torch.from_numpy(values))
