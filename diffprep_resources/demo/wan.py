"""Tiny encoders of the real classes, laid out as a diffusers Wan 2.1 repository without its
transformer: 300 KB for text-to-video, 450 KB with the image encoder of image-to-video.

Random weights: they encode nothing that means anything, in the right shapes (4 frames and 8 by 8
pixels per latent, 16 channels with Wan's own statistics).
"""

import json
from pathlib import Path

from diffprep_resources.demo.encoders import WIDTH, fill_weights
from diffprep_resources.demo.tokenizers import write_t5_tokenizer
from diffprep_resources.encoders.base import Workload
from diffprep_resources.encoders.loading import quiet_libraries

IMAGE_SIDE = 32
_PATCH = 8
# What openai's CLIP was trained with, as every CLIP repository's preprocessor_config.json has it.
_CLIP_MEAN = [0.48145466, 0.4578275, 0.40821073]
_CLIP_STD = [0.26862954, 0.26130258, 0.27577711]


def build_tiny_wan(folder: Path, *, workload: Workload = "t2v", seed: int = 0) -> None:
    """Write the repository; the same seed gives the same weights on every machine."""
    folder.mkdir(parents=True, exist_ok=True)
    with quiet_libraries():
        _write_vae(folder / "vae", seed=seed)
        vocabulary_size = write_t5_tokenizer(folder / "tokenizer")
        _write_umt5(folder / "text_encoder", vocabulary_size=vocabulary_size, seed=seed)
        if workload == "i2v":
            _write_clip_vision(folder / "image_encoder", seed=seed)
            _write_preprocessor(folder / "image_processor")
        _write_index(folder, workload=workload)


def _write_vae(folder: Path, *, seed: int) -> None:
    from diffusers.models.autoencoders.autoencoder_kl_wan import AutoencoderKLWan

    model = AutoencoderKLWan(base_dim=4, dim_mult=[1, 1, 1, 1], num_res_blocks=1)
    fill_weights(model, seed=seed)
    model.save_pretrained(folder)


def _write_umt5(folder: Path, *, vocabulary_size: int, seed: int) -> None:
    from transformers import UMT5Config, UMT5EncoderModel

    config = UMT5Config(
        vocab_size=vocabulary_size,
        d_model=WIDTH,
        d_kv=WIDTH // 4,
        d_ff=2 * WIDTH,
        num_layers=2,
        num_heads=4,
        feed_forward_proj="gated-gelu",
        is_encoder_decoder=False,
        use_cache=False,
    )
    model = UMT5EncoderModel(config)
    fill_weights(model, seed=seed)
    model.save_pretrained(folder)


def _write_clip_vision(folder: Path, *, seed: int) -> None:
    """Three layers: the last but one, which is read, is then not the first."""
    from transformers import CLIPVisionConfig, CLIPVisionModel

    config = CLIPVisionConfig(
        hidden_size=WIDTH,
        intermediate_size=2 * WIDTH,
        num_hidden_layers=3,
        num_attention_heads=4,
        image_size=IMAGE_SIDE,
        patch_size=_PATCH,
        projection_dim=WIDTH // 2,
        hidden_act="gelu",
    )
    model = CLIPVisionModel(config)
    fill_weights(model, seed=seed)
    model.save_pretrained(folder)


def _write_preprocessor(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    settings = {
        "image_processor_type": "CLIPImageProcessor",
        "do_convert_rgb": True,
        "do_resize": True,
        "size": {"shortest_edge": IMAGE_SIDE},
        "resample": 3,
        "do_center_crop": True,
        "crop_size": {"height": IMAGE_SIDE, "width": IMAGE_SIDE},
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": _CLIP_MEAN,
        "image_std": _CLIP_STD,
    }
    _write_json(folder / "preprocessor_config.json", settings)


def _write_index(folder: Path, *, workload: Workload) -> None:
    import diffusers
    from diffusers.schedulers.scheduling_flow_match_euler_discrete import (
        FlowMatchEulerDiscreteScheduler,
    )

    FlowMatchEulerDiscreteScheduler(shift=3.0).save_pretrained(folder / "scheduler")
    index: dict[str, object] = {
        "_class_name": "WanImageToVideoPipeline" if workload == "i2v" else "WanPipeline",
        "_diffusers_version": diffusers.__version__,
        "scheduler": ["diffusers", "FlowMatchEulerDiscreteScheduler"],
        "text_encoder": ["transformers", "UMT5EncoderModel"],
        "tokenizer": ["transformers", "T5TokenizerFast"],
        "transformer": ["diffusers", "WanTransformer3DModel"],
        "vae": ["diffusers", "AutoencoderKLWan"],
    }
    if workload == "i2v":
        index["image_encoder"] = ["transformers", "CLIPVisionModel"]
        index["image_processor"] = ["transformers", "CLIPImageProcessor"]
    _write_json(folder / "model_index.json", index)


def _write_json(path: Path, content: dict[str, object]) -> None:
    path.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n", "utf-8")
