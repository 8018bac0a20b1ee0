"""energon_video_prepare: publishes the finished tars of clips, with index and metadata."""

import dagster as dg

from diffprep_assets.dataset import Dataset
from diffprep_assets.energon_prepare.assets import published_asset


def energon_video_prepare_asset(dataset: Dataset, *, wait_minutes: float) -> dg.AssetsDefinition:
    """The asset of the output folder of encoded clips that Energon reads."""
    return published_asset(dataset, format="energon_video", wait_minutes=wait_minutes)
