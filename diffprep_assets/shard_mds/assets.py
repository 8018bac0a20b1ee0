"""shard_mds: one MDS shard per shard of the plan, private until mds_prepare publishes it."""

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
from diffprep_assets.shard_mds.worker import mds_spec, mds_task
from diffprep_assets.stage_inputs import planned
from diffprep_resources.compute.engines import Engines
from diffprep_resources.progress.base import Progress

# What a worker process gets through while another one starts.
SAMPLES_PER_PROCESS = 256


def shard_mds_asset(dataset: Dataset, *, wait_minutes: float) -> dg.AssetsDefinition:
    """The asset of the finished MDS shards."""
    reads = ["shard_members", *encode_stages(dataset.recipe)]

    @partitioned_stage(dataset.name, "shard_mds", reads=reads, kind="mds")
    def shard_mds(
        context: dg.AssetExecutionContext,
        config: RetryConfig,
        engines: dg.ResourceParam[Engines],
        progress: dg.ResourceParam[Progress],
    ) -> Iterator[Any]:
        """The MDS shard of a shard: pictures at its bucket's size, captions, and more if asked."""
        layout, log = dataset.layout.of("mds"), context.log.info
        mark_run(context, dataset.loaded.recipe_hash)
        locks = StepLocks(layout, "shard_mds", context.run.run_id, wait_minutes, log)
        with locks.together():
            run = PartitionRun(
                stage="shard_mds",
                unit="shards",
                tasks=[
                    mds_task(dataset, shard, retry_rejects=config.retry_rejects)
                    for shard in planned(dataset, context.partition_keys)
                ],
                finished=lambda task: finished_shard(layout, task),
                spec=mds_spec(dataset),
                recipe_hash=dataset.loaded.recipe_hash,
                samples_per_process=SAMPLES_PER_PROCESS,
                imports=("torch",),
                max_reject_rate=dataset.recipe.output.max_reject_rate,
            )
            yield from recorded(
                context,
                run.results(engines.cpu, progress=progress, log=log),
                upstreams=[
                    Upstream(
                        stage_key(dataset.name, read),
                        partitioned=True,
                        observed=read == "shard_members",
                    )
                    for read in reads
                ],
            )

    return shard_mds
