"""shard, of a dataset of clips: FastVideo's parquet files, private until fastvideo_prepare."""

import dagster as dg

from diffprep_assets.dataset import Dataset
from diffprep_assets.shard.assets import FinishedStage, finished_asset
from diffprep_assets.shard_fastvideo.worker import fastvideo_spec


def shard_fastvideo_asset(dataset: Dataset, *, wait_minutes: float) -> dg.AssetsDefinition:
    """The asset of the finished FastVideo shards."""
    stage = FinishedStage(
        "fastvideo",
        made="The parquet files of a shard: a row for each clip, as FastVideo's trainers read it.",
        kind="parquet",
        spec=fastvideo_spec,
        samples_per_process=64,
    )
    return finished_asset(dataset, stage, wait_minutes=wait_minutes)
