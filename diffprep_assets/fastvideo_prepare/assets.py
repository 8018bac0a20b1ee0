"""fastvideo_prepare: publishes the finished shards of clips as trees that FastVideo trains on."""

import dagster as dg

from diffprep_assets.dataset import Dataset
from diffprep_assets.energon_prepare.assets import published_asset
from diffprep_assets.fastvideo_prepare.update import publish_trees


def fastvideo_prepare_asset(dataset: Dataset, *, wait_minutes: float) -> dg.AssetsDefinition:
    """The asset of the FastVideo output folder."""
    return published_asset(
        dataset,
        format="fastvideo",
        wait_minutes=wait_minutes,
        kind="parquet",
        publisher=publish_trees,
    )
