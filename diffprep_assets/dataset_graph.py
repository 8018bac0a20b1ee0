"""One recipe's assets, in flow order."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import dagster as dg

from diffprep_assets.bucket.assets import bucket_asset
from diffprep_assets.curate.assets import curate_asset
from diffprep_assets.dataset import Dataset
from diffprep_assets.download.assets import download_asset
from diffprep_assets.encode_clip.assets import encode_clip_asset
from diffprep_assets.encode_first_frame.assets import encode_first_frame_asset
from diffprep_assets.encode_latents.assets import encode_latents_asset
from diffprep_assets.encode_text.assets import encode_text_asset
from diffprep_assets.energon_prepare.assets import energon_prepare_asset
from diffprep_assets.energon_video_prepare.assets import energon_video_prepare_asset
from diffprep_assets.fastvideo_prepare.assets import fastvideo_prepare_asset
from diffprep_assets.freshness import FORMAT_VERSIONS
from diffprep_assets.mds_prepare.assets import mds_prepare_asset
from diffprep_assets.partitions import stage_key
from diffprep_assets.picture_hash.assets import picture_hash_asset
from diffprep_assets.project import Project
from diffprep_assets.raw_prepare.assets import raw_prepare_asset
from diffprep_assets.recipe.formats import stages_of
from diffprep_assets.recipe.names import asset_group_name
from diffprep_assets.shard.assets import shard_asset
from diffprep_assets.shard_energon_video.assets import shard_energon_video_asset
from diffprep_assets.shard_fastvideo.assets import shard_fastvideo_asset
from diffprep_assets.shard_mds.assets import shard_mds_asset
from diffprep_assets.shard_plan.assets import shard_members_spec, shard_plan_asset
from diffprep_assets.shard_raw.assets import shard_raw_asset
from diffprep_assets.source_columns.assets import source_columns_asset
from diffprep_assets.source_index.assets import source_index_asset
from diffprep_assets.stage_versions import code_version
from diffprep_assets.validate.assets import validate_asset


@dataclass(frozen=True, slots=True)
class DatasetGraph:
    """The assets of one dataset."""

    dataset: Dataset
    assets: Sequence[dg.AssetsDefinition | dg.AssetSpec]


def dataset_graph(dataset: Dataset, project: Project) -> DatasetGraph:
    """source_index -> download -> bucket (-> source_columns, picture_hash) -> curate -> shard_plan
    -> shard_members -> encode_latents, encode_text -> shard -> energon_prepare -> validate.

    Beside `shard` and `energon_prepare` stand those of the recipe's other formats; what no format
    and no rule of the recipe asks for is not there.
    """
    wait = project.lock_wait_minutes
    op_tags = dict(project.gpu_op_tags or {})
    makers: dict[str, Callable[[], dg.AssetsDefinition]] = {
        "source_index": lambda: source_index_asset(dataset, wait_minutes=wait),
        "download": lambda: download_asset(dataset, wait_minutes=wait),
        "bucket": lambda: bucket_asset(dataset, wait_minutes=wait),
        "source_columns": lambda: source_columns_asset(dataset, wait_minutes=wait),
        "picture_hash": lambda: picture_hash_asset(dataset, wait_minutes=wait),
        "curate": lambda: curate_asset(dataset, wait_minutes=wait),
        "shard_plan": lambda: shard_plan_asset(dataset, wait_minutes=wait),
        "encode_latents": lambda: encode_latents_asset(dataset, wait_minutes=wait, op_tags=op_tags),
        "encode_text": lambda: encode_text_asset(dataset, wait_minutes=wait, op_tags=op_tags),
        "encode_first_frame": lambda: encode_first_frame_asset(
            dataset, wait_minutes=wait, op_tags=op_tags
        ),
        "encode_clip": lambda: encode_clip_asset(dataset, wait_minutes=wait, op_tags=op_tags),
        "shard": lambda: _main_shard_asset(dataset, wait_minutes=wait),
        "shard_raw": lambda: shard_raw_asset(dataset, wait_minutes=wait),
        "shard_mds": lambda: shard_mds_asset(dataset, wait_minutes=wait),
        "shard_energon_video": lambda: shard_energon_video_asset(dataset, wait_minutes=wait),
        "energon_prepare": lambda: energon_prepare_asset(dataset, wait_minutes=wait),
        "raw_prepare": lambda: raw_prepare_asset(dataset, wait_minutes=wait),
        "mds_prepare": lambda: mds_prepare_asset(dataset, wait_minutes=wait),
        "energon_video_prepare": lambda: energon_video_prepare_asset(dataset, wait_minutes=wait),
        "fastvideo_prepare": lambda: fastvideo_prepare_asset(dataset, wait_minutes=wait),
        "validate": lambda: validate_asset(dataset, wait_minutes=wait),
    }
    describe = partial(_described, page=_page_of(dataset), dataset=dataset)
    assets: list[dg.AssetsDefinition | dg.AssetSpec] = []
    for stage in stages_of(dataset.recipe):
        assets.append(makers[stage]().map_asset_specs(describe))
        if stage == "shard_plan":
            assets.append(describe(shard_members_spec(dataset)))
    return DatasetGraph(dataset, assets)


def _main_shard_asset(dataset: Dataset, *, wait_minutes: float) -> dg.AssetsDefinition:
    """Of pictures one tar a shard, of clips FastVideo's files."""
    is_of_clips = dataset.recipe.video is not None
    make = shard_fastvideo_asset if is_of_clips else shard_asset
    return make(dataset, wait_minutes=wait_minutes)


def _page_of(dataset: Dataset) -> dict[str, dg.MetadataValue]:
    """What every asset page of the dataset shows of its recipe."""
    loaded = dataset.loaded
    return {
        "recipe": dg.MetadataValue.md(f"```yaml\n{loaded.text.rstrip()}\n```"),
        "recipe_file": dg.MetadataValue.path(str(loaded.path)),
        "recipe_hash": dg.MetadataValue.text(loaded.recipe_hash),
    }


def _described(
    spec: dg.AssetSpec, *, page: Mapping[str, dg.MetadataValue], dataset: Dataset
) -> dg.AssetSpec:
    """The asset with what its page shows whether or not it was ever made, and with the version
    that tells Dagster of a changed recipe."""
    stage = spec.key.path[-1]
    files = dg.MetadataValue.path(str(dataset.layout.files_of(stage)))
    described = spec.merge_attributes(metadata={**page, "made_by": _maker(stage), "files": files})
    if stage not in FORMAT_VERSIONS:
        return described
    return described.replace_attributes(code_version=code_version(stage, dataset.loaded))


def _maker(stage: str) -> str:
    """The stage that makes the asset: itself, but for the one that no step makes."""
    return "shard_plan" if stage == "shard_members" else stage


def broken_recipe(name: str, message: str) -> dg.AssetSpec:
    """What stands in the UI for a recipe that cannot be read: in a group of its name, file, line
    and reason of each problem."""
    return dg.AssetSpec(
        stage_key(name, "broken_recipe"),
        group_name=asset_group_name(name),
        # Markdown runs lines together, but not paragraphs.
        description=message.replace("\n", "\n\n"),
        kinds={"yaml"},
    )
