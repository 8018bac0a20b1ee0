"""shard_energon_video: one tar of encoded clips per shard, private until it is published."""

from collections.abc import Iterator
from typing import Any

import dagster as dg

from diffprep_assets.dataset import Dataset
from diffprep_assets.dataset_locks import StepLocks
from diffprep_assets.partition_run import PartitionRun
from diffprep_assets.partitions import RetryConfig, mark_run, partitioned_stage, stage_key
from diffprep_assets.recipe.formats import encode_stages
from diffprep_assets.shard.finished import finished_shard
from diffprep_assets.shard_energon_video.worker import (
    STAGE,
    energon_video_spec,
    energon_video_task,
)
from diffprep_assets.shard_events import Upstream, recorded
from diffprep_assets.stage_inputs import planned
from diffprep_resources.compute.engines import Engines
from diffprep_resources.progress.base import Progress

# What a worker process gets through while another one starts.
SAMPLES_PER_PROCESS = 64


def shard_energon_video_asset(dataset: Dataset, *, wait_minutes: float) -> dg.AssetsDefinition:
    """The asset of the finished tars of clips."""
    reads = encode_stages(dataset.recipe)

    @partitioned_stage(dataset.name, STAGE, reads=reads, kind="tar")
    def shard_energon_video(
        context: dg.AssetExecutionContext,
        config: RetryConfig,
        engines: dg.ResourceParam[Engines],
        progress: dg.ResourceParam[Progress],
    ) -> Iterator[Any]:
        """The tar of a shard of clips: latents, text embeddings and captions, for Energon."""
        layout, log = dataset.layout.of("energon_video"), context.log.info
        mark_run(context, dataset.loaded.recipe_hash)
        locks = StepLocks(layout, STAGE, context.run.run_id, wait_minutes, log)
        with locks.together():
            run = PartitionRun(
                stage=STAGE,
                unit="shards",
                tasks=[
                    energon_video_task(dataset, shard, retry_rejects=config.retry_rejects)
                    for shard in planned(dataset, context.partition_keys)
                ],
                finished=lambda task: finished_shard(layout, task),
                spec=energon_video_spec(dataset),
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

    return shard_energon_video
