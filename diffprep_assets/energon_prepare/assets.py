"""energon_prepare: publishes the finished shards, with index and metadata, as one dataset."""

from typing import Any

import dagster as dg

from diffprep_assets.dataset import Dataset
from diffprep_assets.dataset_locks import StepLocks
from diffprep_assets.energon_prepare.update import Prepared, Publisher, prepare
from diffprep_assets.partitions import mark_run, whole_stage
from diffprep_assets.recipe.formats import PREPARE_STAGE, SHARD_STAGE, Format
from diffprep_resources.progress.base import Progress, SampleCounts


def energon_prepare_asset(dataset: Dataset, *, wait_minutes: float) -> dg.AssetsDefinition:
    """The asset of the pre-encoded output folder."""
    return published_asset(dataset, format="energon", wait_minutes=wait_minutes)


def published_asset(
    dataset: Dataset,
    *,
    format: Format,
    wait_minutes: float,
    kind: str = "energon",
    publisher: Publisher | None = None,
) -> dg.AssetsDefinition:
    """The asset of a format's output folder; `publisher` as `prepare` takes it."""
    stage = PREPARE_STAGE[format]

    @whole_stage(dataset.name, stage, reads=[SHARD_STAGE[format]], kind=kind)
    def published(
        context: dg.AssetExecutionContext, progress: dg.ResourceParam[Progress]
    ) -> dg.MaterializeResult:
        """The published dataset: what a trainer reads."""
        layout, log = dataset.layout.of(format), context.log.info
        mark_run(context, dataset.loaded.recipe_hash)
        locks = StepLocks(dataset.layout, stage, context.run.run_id, wait_minutes, log)
        with (
            locks.alone(),
            progress.stage(stage, log=log) as shown,
        ):
            prepared = prepare(dataset, format=format, publisher=publisher)
            shown.summary.samples = SampleCounts(
                prepared.listed, prepared.written, reused=prepared.written, rejects=prepared.rejects
            )
        skipped = f", {prepared.skipped} of them skipped" if prepared.skipped else ""
        shown.tell(f"{stage}: {prepared.written} samples in {layout.output_dir}{skipped}")
        for note in prepared.notes:
            shown.tell(f"{stage}: {note}")
        return dg.MaterializeResult(
            data_version=dg.DataVersion(prepared.fingerprint),
            metadata={
                **_numbers(prepared),
                "output_dir": dg.MetadataValue.path(str(layout.output_dir)),
                "notes": list(prepared.notes),
                "seconds": round(shown.summary.seconds, 3),
                "recipe_hash": dataset.loaded.recipe_hash,
                "recipe": dataset.loaded.resolved,
            },
        )

    return published


def _numbers(prepared: Prepared) -> dict[str, Any]:
    return {
        "samples_in": prepared.listed,
        "samples_out": prepared.written,
        "rejected": prepared.rejects.total(),
        "rejects": dict(sorted(prepared.rejects.items())),
        "skipped": prepared.skipped,
        "served": prepared.written - prepared.skipped,
        "shards": prepared.shards,
        "shards_added": prepared.added,
        "shards_removed": prepared.removed,
        "bytes": prepared.size_bytes,
    }
