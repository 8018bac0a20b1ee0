"""encode_text: each caption of a shard through the text encoders."""

from typing import Any

import dagster as dg

from diffprep_assets.dataset import Dataset
from diffprep_assets.encode_latents.assets import EncodeStage, encode_asset
from diffprep_assets.encode_text.worker import empty_caption_tasks, text_spec

# What a worker process gets through while another one starts.
SAMPLES_PER_PROCESS = 500


def encode_text_asset(
    dataset: Dataset, *, wait_minutes: float, op_tags: dict[str, Any]
) -> dg.AssetsDefinition:
    """The asset of the shards' text embeddings."""
    of_clips = dataset.recipe.video is not None
    stage = EncodeStage(
        "encode_text",
        row="The text encoders' embeddings of a shard's captions, one row per sample.",
        spec=text_spec,
        # Beside clips, CLIP is an encoder of pictures.
        roles=("t5",) if of_clips else ("t5", "clip"),
        samples_per_process=SAMPLES_PER_PROCESS,
        extra=empty_caption_tasks,
    )
    return encode_asset(dataset, stage, wait_minutes=wait_minutes, op_tags=op_tags)
