"""shard_energon_video: one tar of encoded clips per shard, private until it is published."""

import dagster as dg

from diffprep_assets.dataset import Dataset
from diffprep_assets.shard.assets import FinishedStage, finished_asset
from diffprep_assets.shard_energon_video.worker import energon_video_spec


def shard_energon_video_asset(dataset: Dataset, *, wait_minutes: float) -> dg.AssetsDefinition:
    """The asset of the finished tars of clips."""
    stage = FinishedStage(
        "energon_video",
        made="The tar of a shard of clips: latents, text embeddings and captions, for Energon.",
        kind="tar",
        spec=energon_video_spec,
        samples_per_process=64,
    )
    return finished_asset(dataset, stage, wait_minutes=wait_minutes)
