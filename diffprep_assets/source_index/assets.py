"""source_index: lists the source and registers its parts."""

import dagster as dg

from diffprep_assets.dataset import Dataset
from diffprep_assets.dataset_locks import StepLocks
from diffprep_assets.partitions import mark_run, parts_of, sync_partitions, whole_stage
from diffprep_assets.source_index.listing import listed_index
from diffprep_assets.source_index.table import write_index
from diffprep_resources.progress.base import Progress, SampleCounts


def source_index_asset(dataset: Dataset, *, wait_minutes: float) -> dg.AssetsDefinition:
    """The asset that lists the dataset's source."""

    @whole_stage(dataset.name, "source_index", reads=[], kind="parquet")
    def source_index(
        context: dg.AssetExecutionContext, progress: dg.ResourceParam[Progress]
    ) -> dg.MaterializeResult:
        """One row per source file, with the part that it belongs to for life."""
        log = context.log.info
        mark_run(context, dataset.loaded.recipe_hash)
        locks = StepLocks(dataset.layout, "source_index", context.run.run_id, wait_minutes, log)
        with (
            locks.alone(),
            progress.stage("source_index", log=log) as shown,
        ):
            dataset.claim()
            dataset.check_encoders()
            index = listed_index(dataset)
            write_index(dataset.layout.source_index, index)
            sync_partitions(context.instance, parts_of(dataset.name), index.parts.parts)
            files = sum(file.present for file in index.parts.files)
            shown.summary.samples = SampleCounts(samples_in=files, samples_out=files)
        shown.tell(f"source_index: {files} source files in {len(index.parts.parts)} parts")
        return dg.MaterializeResult(
            data_version=dg.DataVersion(index.fingerprint),
            metadata={
                "source_files": files,
                "parts": len(index.parts.parts),
                "other_files": index.other_files,
                "revision": index.revision or "none",
                "seconds": round(shown.summary.seconds, 3),
                "recipe_hash": dataset.loaded.recipe_hash,
            },
        )

    return source_index
