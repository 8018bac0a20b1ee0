"""curate: which samples are left out by the recipe's rules, and which must share a split."""

from typing import Any

import dagster as dg

from diffprep_assets.curate.inputs import STAGE
from diffprep_assets.curate.update import CurateUpdate, update_curate
from diffprep_assets.dataset import Dataset
from diffprep_assets.dataset_locks import StepLocks
from diffprep_assets.partitions import mark_run, whole_stage
from diffprep_assets.recipe.formats import part_stages
from diffprep_assets.source_index.table import read_index
from diffprep_assets.stage_inputs import missing_whole_stage
from diffprep_resources.progress.base import Progress, SampleCounts


def curate_asset(dataset: Dataset, *, wait_minutes: float) -> dg.AssetsDefinition:
    """The asset of the verdicts."""
    reads = [stage for stage in part_stages(dataset.recipe) if stage != "download"]

    @whole_stage(dataset.name, STAGE, reads=reads, kind="parquet")
    def curate(
        context: dg.AssetExecutionContext, progress: dg.ResourceParam[Progress]
    ) -> dg.MaterializeResult:
        """One row per sample that curation leaves out, or that shares a split with others."""
        layout, log = dataset.layout, context.log.info
        mark_run(context, dataset.loaded.recipe_hash)
        locks = StepLocks(layout, STAGE, context.run.run_id, wait_minutes, log)
        with locks.alone(), progress.stage(STAGE, log=log) as shown:
            index = read_index(layout.source_index)
            if index is None:
                raise missing_whole_stage(dataset, "source_index")
            update = update_curate(dataset, index)
            kept = update.samples - update.rejected
            looked_at = update.samples if update.changed else 0
            shown.summary.samples = SampleCounts(
                update.samples,
                kept,
                encoded=looked_at,
                reused=update.samples - looked_at,
                rejects=update.codes,
            )
        shown.tell(f"curate: {kept} of {update.samples} samples stay")
        for words in unmatched_words(update):
            shown.tell(f"curate: {words}")
        return dg.MaterializeResult(
            data_version=dg.DataVersion(update.digest),
            metadata={
                **curate_metadata(update),
                "seconds": round(shown.summary.seconds, 3),
                "recipe_hash": dataset.loaded.recipe_hash,
            },
        )

    return curate


def unmatched_words(update: CurateUpdate) -> list[str]:
    """A sentence for each skip list of which some entries name no sample."""
    return [
        f"skip list {name}: {counts['unmatched']:,} of {counts['entries']:,} entries name no "
        f"sample, such as {', '.join(counts['first_unmatched'])}"
        for name, counts in update.skip_lists.items()
        if counts["unmatched"]
    ]


def curate_metadata(update: CurateUpdate) -> dict[str, Any]:
    """The numbers of the verdicts."""
    return {
        "samples_in": update.samples,
        "samples_out": update.samples - update.rejected,
        "rejected": update.rejected,
        "rejects": dict(sorted(update.codes.items())),
        "rules": dict(sorted(update.rules.items())),
        "skip_lists": {name: dict(counts) for name, counts in update.skip_lists.items()},
    }
