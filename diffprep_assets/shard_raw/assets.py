"""shard_raw: one tar of pictures and captions per shard, private until raw_prepare publishes it."""

import dagster as dg

from diffprep_assets.dataset import Dataset
from diffprep_assets.shard.assets import FinishedStage, finished_asset
from diffprep_assets.shard_raw.worker import raw_spec


def shard_raw_asset(dataset: Dataset, *, wait_minutes: float) -> dg.AssetsDefinition:
    """The asset of the finished raw tars."""
    stage = FinishedStage(
        "raw",
        made="The raw tar of a shard: each sample's picture at its bucket's size, and its caption.",
        kind="tar",
        spec=raw_spec,
        may_reject=True,
    )
    return finished_asset(dataset, stage, wait_minutes=wait_minutes)
