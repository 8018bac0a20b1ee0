"""The FastVideo output folder brought up to the plan, by the way that all formats take."""

from collections.abc import Sequence
from pathlib import Path

from diffprep_assets.dataset import Dataset
from diffprep_assets.energon_prepare.provenance import DatasetDescription
from diffprep_assets.energon_prepare.publish import FinishedShard, Publication
from diffprep_assets.fastvideo_prepare.clips_list import write_clips_lists
from diffprep_assets.fastvideo_prepare.publish import FastVideoFacts, publish_fastvideo
from diffprep_assets.layout import Layout
from diffprep_assets.recipe.folders import is_remote
from diffprep_assets.recipe.formats import has_several_buckets
from diffprep_assets.shard_fastvideo.worker import fastvideo_spec
from diffprep_resources.errors import SettingError


def publish_trees(
    dataset: Dataset,
    layout: Layout,
    finished: Sequence[FinishedShard],
    description: DatasetDescription,
) -> Publication:
    """What was published of the finished shards; a publisher for `energon_prepare`'s `prepare`.
    Raises SettingError for clips.jsonl of clips that are no files."""
    finalize = dataset.recipe.output.finalize
    clips_folder = source_folder(dataset) if finalize else None
    published = publish_fastvideo(
        layout,
        shards=finished,
        description=description,
        facts=fastvideo_facts(dataset),
        finalize=finalize,
    )
    write_clips_lists(layout, published.shards, source_folder=clips_folder)
    return published


def fastvideo_facts(dataset: Dataset) -> FastVideoFacts:
    """What dataset.json says of the rows and their files."""
    spec, nested = fastvideo_spec(dataset), has_several_buckets(dataset.recipe)
    return FastVideoFacts(spec.workload, spec.train_fps, spec.samples_per_file, nested)


def source_folder(dataset: Dataset) -> Path | None:
    """Where clips.jsonl's paths start; None where the recipe asks for none. Raises SettingError
    where the clips are no files of a local folder."""
    video, source = dataset.recipe.video, dataset.recipe.source
    if video is None or not video.clips_jsonl:
        return None
    folder = dataset.loaded.input_dir if source.type == "directory" else None
    if not folder or is_remote(folder):
        raise SettingError(
            f"{dataset.loaded.path}: video.clips_jsonl names clips by their paths, which only a "
            f"local folder's have (source.type directory); here source.type is {source.type}"
        )
    return Path(folder)
