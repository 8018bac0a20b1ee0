"""energon_prepare: publishes the finished shards, with index and metadata, as one dataset."""

import dagster as dg

from diffprep_assets.dataset import Dataset
from diffprep_assets.dataset_locks import StepLocks
from diffprep_assets.energon_prepare.update import prepare
from diffprep_assets.partitions import mark_run, whole_stage
from diffprep_resources.progress.base import Progress, SampleCounts


def energon_prepare_asset(dataset: Dataset, *, wait_minutes: float) -> dg.AssetsDefinition:
    """The asset of the output folder."""

    @whole_stage(dataset.name, "energon_prepare", reads=["shard"], kind="energon")
    def energon_prepare(
        context: dg.AssetExecutionContext, progress: dg.ResourceParam[Progress]
    ) -> dg.MaterializeResult:
        """The published dataset: what a trainer reads."""
        layout, log = dataset.layout, context.log.info
        mark_run(context, dataset.loaded.recipe_hash)
        locks = StepLocks(dataset.layout, "energon_prepare", context.run.run_id, wait_minutes, log)
        with (
            locks.alone(),
            progress.stage("energon_prepare", log=log) as shown,
        ):
            prepared = prepare(dataset)
            rejected = sum(prepared.rejects.values())
            shown.summary.samples = SampleCounts(
                prepared.listed, prepared.written, reused=prepared.written, rejects=prepared.rejects
            )
        shown.tell(f"energon_prepare: {prepared.written} samples in {layout.output_dir}")
        return dg.MaterializeResult(
            data_version=dg.DataVersion(prepared.fingerprint),
            metadata={
                "samples_in": prepared.listed,
                "samples_out": prepared.written,
                "rejected": rejected,
                "rejects": dict(sorted(prepared.rejects.items())),
                "shards": prepared.shards,
                "shards_added": prepared.added,
                "shards_removed": prepared.removed,
                "bytes": prepared.size_bytes,
                "output_dir": dg.MetadataValue.path(str(layout.output_dir)),
                "seconds": round(shown.summary.seconds, 3),
                "recipe_hash": dataset.loaded.recipe_hash,
                "recipe": dataset.loaded.resolved,
            },
        )

    return energon_prepare
