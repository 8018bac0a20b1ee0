"""shard: one tar per shard, finished and private until energon_prepare publishes it."""

from collections.abc import Iterator
from typing import Any

import dagster as dg

from diffprep_assets.dataset import Dataset
from diffprep_assets.dataset_locks import StepLocks
from diffprep_assets.partition_run import PartitionRun
from diffprep_assets.partitions import RetryConfig, mark_run, partitioned_stage, stage_key
from diffprep_assets.shard.finished import finished_shard
from diffprep_assets.shard.worker import ShardSpec, shard_task
from diffprep_assets.shard_events import Upstream, recorded
from diffprep_assets.stage_inputs import planned
from diffprep_resources.compute.engines import Engines
from diffprep_resources.progress.base import Progress

# What a worker process gets through while another one starts.
SAMPLES_PER_PROCESS = 256


def shard_asset(dataset: Dataset, *, wait_minutes: float) -> dg.AssetsDefinition:
    """The asset of the finished tars."""
    reads = ["encode_latents", "encode_text"]

    @partitioned_stage(dataset.name, "shard", reads=reads, kind="tar")
    def shard(
        context: dg.AssetExecutionContext,
        config: RetryConfig,
        engines: dg.ResourceParam[Engines],
        progress: dg.ResourceParam[Progress],
    ) -> Iterator[Any]:
        """The finished tar of a shard, with its index rows beside it."""
        layout, log = dataset.layout.of("energon"), context.log.info
        mark_run(context, dataset.loaded.recipe_hash)
        locks = StepLocks(dataset.layout, "shard", context.run.run_id, wait_minutes, log)
        with locks.together():
            run = PartitionRun(
                stage="shard",
                unit="shards",
                tasks=[
                    shard_task(dataset, shard, retry_rejects=config.retry_rejects)
                    for shard in planned(dataset, context.partition_keys)
                ],
                finished=lambda task: finished_shard(layout, task),
                spec=ShardSpec(
                    layout,
                    dataset.latents_settings,
                    dataset.text_settings,
                    prune=dataset.recipe.output.intermediates == "prune",
                ),
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
