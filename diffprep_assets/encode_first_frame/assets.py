"""encode_first_frame: the first frame of each clip of a shard through the VAE."""

from typing import Any

import dagster as dg

from diffprep_assets.dataset import Dataset
from diffprep_assets.encode_first_frame.worker import first_frame_spec
from diffprep_assets.encode_latents.assets import (
    SAMPLES_PER_PROCESS,
    EncodeStage,
    encode_asset,
)


def encode_first_frame_asset(
    dataset: Dataset, *, wait_minutes: float, op_tags: dict[str, Any]
) -> dg.AssetsDefinition:
    """The asset of the first frames' latents and pixels."""
    stage = EncodeStage(
        "encode_first_frame",
        row="The first frames of a shard's clips and their VAE latents, one row per sample.",
        spec=first_frame_spec,
        roles=("vae",),
        samples_per_process=SAMPLES_PER_PROCESS,
    )
    return encode_asset(dataset, stage, wait_minutes=wait_minutes, op_tags=op_tags)
