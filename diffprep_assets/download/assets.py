"""download: what each source file of a part is now; brings remote bytes in."""

from collections.abc import Iterator
from typing import Any

import dagster as dg

from diffprep_assets.dataset import Dataset
from diffprep_assets.dataset_locks import StepLocks
from diffprep_assets.download.worker import DownloadSpec, download_task, finished_download
from diffprep_assets.partition_run import PartitionRun
from diffprep_assets.partitions import mark_run, partitioned_stage, stage_key
from diffprep_assets.shard_events import Upstream, recorded
from diffprep_assets.source_index.table import read_index
from diffprep_assets.stage_inputs import missing_whole_stage
from diffprep_resources.compute.engines import Engines
from diffprep_resources.progress.base import Progress
from diffprep_resources.sources.remote import RemoteSource

# What a worker process gets through while another one starts.
SAMPLES_PER_PROCESS = 1_000_000
FETCHES_PER_PROCESS = 8


def download_asset(dataset: Dataset, *, wait_minutes: float) -> dg.AssetsDefinition:
    """The asset of the parts' files."""

    @partitioned_stage(dataset.name, "download", reads=["source_index"], kind="parquet")
    def download(
        context: dg.AssetExecutionContext,
        engines: dg.ResourceParam[Engines],
        progress: dg.ResourceParam[Progress],
    ) -> Iterator[Any]:
        """Size and times of each source file of a part; for a remote source its bytes too."""
        layout, log = dataset.layout, context.log.info
        mark_run(context, dataset.loaded.recipe_hash)
        locks = StepLocks(dataset.layout, "download", context.run.run_id, wait_minutes, log)
        with locks.together():
            index = read_index(layout.source_index)
            if index is None:
                raise missing_whole_stage(dataset, "source_index")
            paths = index.paths()
            source = dataset.source
            spec = DownloadSpec(layout, source, keep=dataset.recipe.source.keep_downloads)
            run = PartitionRun(
                stage="download",
                unit="parts",
                tasks=[
                    download_task(key, paths.get(key, []), source=source, revision=index.revision)
                    for key in context.partition_keys
                ],
                finished=lambda task: finished_download(spec, task),
                spec=spec,
                recipe_hash=dataset.loaded.recipe_hash,
                samples_per_process=(
                    FETCHES_PER_PROCESS if isinstance(source, RemoteSource) else SAMPLES_PER_PROCESS
                ),
            )
            yield from recorded(
                context,
                run.results(engines.cpu, progress=progress, log=log),
                upstreams=[Upstream(stage_key(dataset.name, "source_index"), partitioned=False)],
            )

    return download
