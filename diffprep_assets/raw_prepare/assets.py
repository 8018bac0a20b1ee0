"""raw_prepare: publishes the finished raw shards, with index and metadata, as one dataset."""

import dagster as dg

from diffprep_assets.dataset import Dataset
from diffprep_assets.energon_prepare.assets import published_asset


def raw_prepare_asset(dataset: Dataset, *, wait_minutes: float) -> dg.AssetsDefinition:
    """The asset of the output folder of pictures and captions."""
    return published_asset(dataset, format="raw", wait_minutes=wait_minutes)
