"""shard, of a dataset of clips: FastVideo's parquet files, private until fastvideo_prepare."""

from collections.abc import Iterator
from typing import Any

import dagster as dg

from diffprep_assets.dataset import Dataset
from diffprep_assets.dataset_locks import StepLocks
from diffprep_assets.partition_run import PartitionRun
from diffprep_assets.partitions import RetryConfig, mark_run, partitioned_stage, stage_key
from diffprep_assets.recipe.formats import encode_stages
from diffprep_assets.shard.finished import finished_shard
from diffprep_assets.shard_events import Upstream, recorded
from diffprep_assets.shard_fastvideo.worker import fastvideo_spec, fastvideo_task
from diffprep_assets.stage_inputs import planned
from diffprep_resources.compute.engines import Engines
from diffprep_resources.progress.base import Progress

# What a worker process gets through while another one starts.
SAMPLES_PER_PROCESS = 64


def shard_fastvideo_asset(dataset: Dataset, *, wait_minutes: float) -> dg.AssetsDefinition:
    """The asset of the finished FastVideo shards."""
    reads = list(encode_stages(dataset.recipe))

    @partitioned_stage(dataset.name, "shard", reads=reads, kind="parquet")
    def shard(
        context: dg.AssetExecutionContext,
        config: RetryConfig,
        engines: dg.ResourceParam[Engines],
        progress: dg.ResourceParam[Progress],
    ) -> Iterator[Any]:
        """The parquet files of a shard: a row for each clip, as FastVideo's trainers read them."""
        layout, log = dataset.layout.of("fastvideo"), context.log.info
        mark_run(context, dataset.loaded.recipe_hash)
        locks = StepLocks(layout, "shard", context.run.run_id, wait_minutes, log)
        with locks.together():
            run = PartitionRun(
                stage="shard",
                unit="shards",
                tasks=[
                    fastvideo_task(dataset, shard, retry_rejects=config.retry_rejects)
                    for shard in planned(dataset, context.partition_keys)
                ],
                finished=lambda task: finished_shard(layout, task),
                spec=fastvideo_spec(dataset),
                recipe_hash=dataset.loaded.recipe_hash,
                samples_per_process=SAMPLES_PER_PROCESS,
                imports=("torch",),
            )
            yield from recorded(
                context,
                run.results(engines.cpu, progress=progress, log=log),
                upstreams=[
                    Upstream(stage_key(dataset.name, read), partitioned=True) for read in reads
                ],
            )

    return shard
