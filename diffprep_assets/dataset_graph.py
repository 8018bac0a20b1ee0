"""One recipe's assets, in flow order."""

from collections.abc import Sequence
from dataclasses import dataclass

import dagster as dg

from diffprep_assets.bucket.assets import bucket_asset
from diffprep_assets.dataset import Dataset
from diffprep_assets.download.assets import download_asset
from diffprep_assets.encode_latents.assets import encode_latents_asset
from diffprep_assets.encode_text.assets import encode_text_asset
from diffprep_assets.energon_prepare.assets import energon_prepare_asset
from diffprep_assets.partitions import stage_key
from diffprep_assets.project import Project
from diffprep_assets.recipe.names import asset_group_name
from diffprep_assets.shard.assets import shard_asset
from diffprep_assets.shard_plan.assets import shard_members_spec, shard_plan_asset
from diffprep_assets.source_index.assets import source_index_asset
from diffprep_assets.validate.assets import validate_asset


@dataclass(frozen=True, slots=True)
class DatasetGraph:
    """The assets of one dataset."""

    dataset: Dataset
    assets: Sequence[dg.AssetsDefinition | dg.AssetSpec]


def dataset_graph(dataset: Dataset, project: Project) -> DatasetGraph:
    """source_index -> download -> bucket -> shard_plan -> shard_members -> encode_latents,
    encode_text -> shard -> energon_prepare -> validate."""
    wait = project.lock_wait_minutes
    op_tags = dict(project.gpu_op_tags or {})
    return DatasetGraph(
        dataset,
        [
            source_index_asset(dataset, wait_minutes=wait),
            download_asset(dataset, wait_minutes=wait),
            bucket_asset(dataset, wait_minutes=wait),
            shard_plan_asset(dataset, wait_minutes=wait),
            shard_members_spec(dataset),
            encode_latents_asset(dataset, wait_minutes=wait, op_tags=op_tags),
            encode_text_asset(dataset, wait_minutes=wait, op_tags=op_tags),
            shard_asset(dataset, wait_minutes=wait),
            energon_prepare_asset(dataset, wait_minutes=wait),
            validate_asset(dataset, wait_minutes=wait),
        ],
    )


def broken_recipe(name: str, message: str) -> dg.AssetSpec:
    """What stands in the UI for a recipe that cannot be read: the reason, in its group."""
    return dg.AssetSpec(
        stage_key(name, "broken_recipe"),
        group_name=asset_group_name(name),
        description=message,
        kinds={"yaml"},
    )
