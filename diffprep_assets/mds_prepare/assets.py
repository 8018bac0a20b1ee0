"""mds_prepare: publishes the finished MDS shards, with an index for each folder, as one tree."""

import dagster as dg

from diffprep_assets.dataset import Dataset
from diffprep_assets.energon_prepare.assets import published_asset
from diffprep_assets.mds_prepare.update import publish_tree


def mds_prepare_asset(dataset: Dataset, *, wait_minutes: float) -> dg.AssetsDefinition:
    """The asset of the MDS output folder."""
    return published_asset(
        dataset, format="mds", wait_minutes=wait_minutes, kind="mds", publisher=publish_tree
    )
