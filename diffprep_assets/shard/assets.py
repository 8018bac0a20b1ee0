"""shard: one tar per shard, finished and private until energon_prepare publishes it; and what the
stages of all finished shards share."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg

from diffprep_assets.dataset import Dataset
from diffprep_assets.dataset_locks import StepLocks
from diffprep_assets.partition_run import PartitionRun
from diffprep_assets.partitions import RetryConfig, mark_run, partitioned_stage, stage_key
from diffprep_assets.recipe.formats import SHARD_STAGE, Format, encode_stages
from diffprep_assets.shard.finished import finished_shard
from diffprep_assets.shard.finished_worker import shard_task
from diffprep_assets.shard.worker import shard_spec
from diffprep_assets.shard_events import Upstream, recorded
from diffprep_assets.stage_inputs import planned
from diffprep_resources.compute.base import WorkerSpec
from diffprep_resources.compute.engines import Engines
from diffprep_resources.progress.base import Progress

MEMBERS = "shard_members"
# What a worker process gets through while another one starts.
SAMPLES_PER_PROCESS = 256


@dataclass(frozen=True, slots=True)
class FinishedStage:
    """What tells the stage of one format's finished shards from another's. `made` says what a
    shard is; with `may_reject` it opens the source itself, and reads the plan's members too.
    `samples_per_process` are worth the start of a process."""

    format: Format
    made: str
    kind: str
    spec: Callable[[Dataset], WorkerSpec]
    may_reject: bool = False
    samples_per_process: int = SAMPLES_PER_PROCESS

    def reads(self, dataset: Dataset) -> Sequence[str]:
        """The stages before it."""
        encoded = encode_stages(dataset.recipe)
        return (MEMBERS, *encoded) if self.may_reject else encoded


def shard_asset(dataset: Dataset, *, wait_minutes: float) -> dg.AssetsDefinition:
    """The asset of the finished tars."""
    stage = FinishedStage(
        "energon",
        made="The finished tar of a shard, with its index rows beside it.",
        kind="tar",
        spec=shard_spec,
    )
    return finished_asset(dataset, stage, wait_minutes=wait_minutes)


def finished_asset(
    dataset: Dataset, stage: FinishedStage, *, wait_minutes: float
) -> dg.AssetsDefinition:
    """The asset of a format's finished shards."""
    name, reads = SHARD_STAGE[stage.format], stage.reads(dataset)

    @partitioned_stage(dataset.name, name, reads=reads, kind=stage.kind)
    def finished(
        context: dg.AssetExecutionContext,
        config: RetryConfig,
        engines: dg.ResourceParam[Engines],
        progress: dg.ResourceParam[Progress],
    ) -> Iterator[Any]:
        layout, log = dataset.layout.of(stage.format), context.log.info
        mark_run(context, dataset.loaded.recipe_hash)
        locks = StepLocks(layout, name, context.run.run_id, wait_minutes, log)
        with locks.together():
            most = dataset.recipe.output.max_reject_rate if stage.may_reject else 1.0
            run = PartitionRun(
                stage=name,
                unit="shards",
                tasks=[
                    shard_task(
                        dataset,
                        shard,
                        format=stage.format,
                        retry_rejects=config.retry_rejects,
                    )
                    for shard in planned(dataset, context.partition_keys)
                ],
                finished=lambda task: finished_shard(layout, task),
                spec=stage.spec(dataset),
                recipe_hash=dataset.loaded.recipe_hash,
                samples_per_process=stage.samples_per_process,
                imports=("torch",),
                max_reject_rate=most,
            )
            yield from recorded(
                context,
                run.results(engines.cpu, progress=progress, log=log),
                upstreams=[
                    Upstream(
                        stage_key(dataset.name, read), partitioned=True, observed=read == MEMBERS
                    )
                    for read in reads
                ],
            )

    return finished.map_asset_specs(lambda spec: spec.replace_attributes(description=stage.made))
