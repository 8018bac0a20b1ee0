"""Datasets read back by energon, and what they should hold, computed by PIL and diffusers alone."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from diffusers.pipelines.flux.pipeline_flux import FluxPipeline
from megatron.energon import WorkerConfig, get_loader, get_val_dataset
from PIL import Image, ImageOps

from diffprep_resources.trainers.energon import PreencodedTaskEncoder

if TYPE_CHECKING:
    from tests.conftest import Drawing

Box = tuple[int, int, int, int]


@pytest.fixture(scope="session")
def flux(tiny_encoders: Path) -> FluxPipeline:
    """diffusers' own pipeline over the tiny encoders, in float32."""
    return FluxPipeline.from_pretrained(tiny_encoders, local_files_only=True)


@pytest.fixture(scope="session")
def expected_sample(flux: FluxPipeline) -> Callable[..., dict[str, torch.Tensor]]:
    """What a sample must hold in resample mode: the picture's crop at a size, and its caption."""

    def compute(
        drawing: "Drawing", *, crop: Box, size: tuple[int, int], tokens: int = 24
    ) -> dict[str, torch.Tensor]:
        stored = Image.open(io.BytesIO(drawing.data))
        upright = ImageOps.exif_transpose(stored).convert("RGBA")
        flat = Image.new("RGBA", upright.size, "white")
        flat.alpha_composite(upright)
        left, top, width, height = crop
        part = flat.convert("RGB").crop((left, top, left + width, top + height))
        pixels = np.array(part.resize(size, Image.Resampling.LANCZOS))
        with torch.inference_mode():
            image = flux.image_processor.preprocess(Image.fromarray(pixels))
            posterior = flux.vae.encode(image).latent_dist
            encoded: Any = flux.encode_prompt(
                drawing.caption, drawing.caption, max_sequence_length=tokens
            )
        config = flux.vae.config
        return {
            "latents": (posterior.mode()[0] - config.shift_factor) * config.scaling_factor,
            "mean": posterior.mean[0],
            "logvar": posterior.logvar[0],
            "prompt_embeds": encoded[0][0],
            "pooled_prompt_embeds": encoded[1][0],
        }

    return compute


@pytest.fixture(scope="session")
def read_samples() -> Callable[..., dict[str, dict[str, Any]]]:
    """Reads one split of a dataset with energon's loader and our task encoder, by source key."""

    def read(folder: Path, split: str = "train") -> dict[str, dict[str, Any]]:
        dataset = get_val_dataset(
            folder,
            split_part=split,
            worker_config=WorkerConfig(rank=0, world_size=1, num_workers=0),
            batch_size=3,
            task_encoder=PreencodedTaskEncoder(),
        )
        samples = {}
        for batch in get_loader(dataset, watchdog_timeout_seconds=None):
            for row, metadata in enumerate(batch["metadata"]):
                tensors = {
                    name: value[row] for name, value in batch.items() if torch.is_tensor(value)
                }
                caption, key = batch["captions"][row], batch["__key__"][row]
                assert metadata["source_key"] not in samples
                samples[metadata["source_key"]] = {
                    "key": key,
                    "caption": caption,
                    "metadata": metadata,
                    "tensors": tensors,
                }
        return samples

    return read
