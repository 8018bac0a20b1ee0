"""shard_mds: one MDS shard per shard of the plan, private until mds_prepare publishes it."""

import dagster as dg

from diffprep_assets.dataset import Dataset
from diffprep_assets.shard.assets import FinishedStage, finished_asset
from diffprep_assets.shard_mds.worker import mds_spec


def shard_mds_asset(dataset: Dataset, *, wait_minutes: float) -> dg.AssetsDefinition:
    """The asset of the finished MDS shards."""
    stage = FinishedStage(
        "mds",
        made="The MDS form of a shard: pictures at its bucket's size, captions, more if asked.",
        kind="mds",
        spec=mds_spec,
        may_reject=True,
    )
    return finished_asset(dataset, stage, wait_minutes=wait_minutes)
