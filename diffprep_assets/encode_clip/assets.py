"""encode_clip: the first frame of each clip of a shard through the model's image encoder."""

from typing import Any

import dagster as dg

from diffprep_assets.dataset import Dataset
from diffprep_assets.encode_clip.worker import clip_spec
from diffprep_assets.encode_latents.assets import (
    SAMPLES_PER_PROCESS,
    EncodeStage,
    encode_asset,
)


def encode_clip_asset(
    dataset: Dataset, *, wait_minutes: float, op_tags: dict[str, Any]
) -> dg.AssetsDefinition:
    """The asset of the first frames' features."""
    stage = EncodeStage(
        "encode_clip",
        row="The image encoder's features of the first frames of a shard's clips, one row per "
        "sample; no tensors where the model has no image encoder.",
        spec=clip_spec,
        roles=("clip",),
        samples_per_process=SAMPLES_PER_PROCESS,
    )
    return encode_asset(dataset, stage, wait_minutes=wait_minutes, op_tags=op_tags)
