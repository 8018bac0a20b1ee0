"""Removes what nothing needs once a format is published. The caller holds the dataset alone."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from diffprep_assets.dataset import Dataset
from diffprep_assets.download.worker import release_downloads, remove_gone
from diffprep_assets.encoded_rows import row_path
from diffprep_assets.layout import Layout
from diffprep_assets.leftovers import remove_all_leftovers
from diffprep_assets.publishing.prepared import all_are_published
from diffprep_assets.recipe.formats import ENCODE_STAGES, Format, main_format
from diffprep_assets.shard.record import ShardRecord
from diffprep_assets.shard_plan.plan import PlannedShard
from diffprep_assets.source_index.table import SourceIndex


def tidy(
    dataset: Dataset,
    shards: Sequence[PlannedShard],
    records: Sequence[ShardRecord],
    *,
    format: Format,
    index: SourceIndex,
) -> None:
    """Remove orphans of the format just published, and fetched bytes: of parts that hold nothing
    any more at once, all others once every format of the recipe is published."""
    remove_orphans(dataset, records, format=format)
    remove_gone(dataset.layout, index)
    if not dataset.recipe.source.keep_downloads and all_are_published(dataset, shards):
        release_downloads(dataset.layout)


def remove_orphans(dataset: Dataset, records: Sequence[ShardRecord], *, format: Format) -> None:
    """Remove files of shards that the plan no longer holds, with `intermediates: prune` the rows
    that are in finished shards of the dataset's main form, and what killed runs left half
    written."""
    layout = dataset.layout.of(format)
    shards = [record.shard for record in records]
    remove_all_leftovers(layout)
    files = (layout.shard_file, layout.shard_samples, layout.shard_record, layout.shard_bad)
    if format == "fastvideo":
        files = (*files, layout.shard_folder)
    _keep(layout.shards_folder, {path(shard).name for shard in shards for path in files})
    main = main_format(dataset.recipe.output.formats)
    if format == main and dataset.recipe.output.intermediates == "prune":
        # Of a sample that one encode stage rejected, the other's row is in its row file alone.
        _keep_rows(layout, [record.shard for record in records if record.rejects])
    elif format == main or main is None:
        _keep_rows(layout, shards)


def _keep_rows(layout: Layout, shards: Sequence[str]) -> None:
    for stage in ENCODE_STAGES:
        names = {row_path(layout, stage, shard).name for shard in shards}
        _keep(row_path(layout, stage, "x").parent, {layout.empty_encodings.name, *names})


def _keep(folder: Path, names: set[str]) -> None:
    """Remove what else there is in the folder."""
    if folder.is_dir():
        for path in folder.iterdir():
            if path.name not in names and path.is_dir():
                shutil.rmtree(path)
            elif path.name not in names:
                path.unlink(missing_ok=True)
