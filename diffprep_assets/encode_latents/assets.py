"""encode_latents: each picture or clip of a shard through the VAE; and what all encode stages'
assets share."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg
from pydantic import Field

from diffprep_assets.dataset import Dataset
from diffprep_assets.dataset_locks import StepLocks
from diffprep_assets.encode_latents.worker import latents_spec
from diffprep_assets.encoded_shard import finished_rows
from diffprep_assets.partition_run import PartitionRun
from diffprep_assets.partition_worker import PartitionTask
from diffprep_assets.partitions import mark_run, partitioned_stage, stage_key
from diffprep_assets.shard_events import Upstream, recorded
from diffprep_assets.stage_inputs import planned
from diffprep_resources.compute.base import Task, WorkerSpec
from diffprep_resources.compute.engines import Engines
from diffprep_resources.encoders.base import EncoderRole
from diffprep_resources.progress.base import Progress

# What a worker process gets through while another one starts.
SAMPLES_PER_PROCESS = 256


class EncodeConfig(dg.Config):
    """Execution settings of one launch: they decide speed, never bytes of another size."""

    device: str | None = Field(
        None, description="cpu, cuda:0, ...; null takes the recipe's, then the project's"
    )
    batch_size: int | None = Field(
        None, ge=1, le=4096, description="samples encoded at once; null takes the recipe's"
    )
    workers: int | None = Field(
        None, ge=1, description="processes on the CPU; null takes the project's cpu_workers"
    )
    retry_rejects: bool = Field(
        False, description="encode samples again whose reject may have been passing"
    )


@dataclass(frozen=True, slots=True)
class EncodeStage:
    """What tells one encode stage from another. `row` says what a row is; `spec` is of a dataset
    and a batch size, `extra` what is encoded besides the shards. `roles` are the encoders that a
    worker loads, as far as the model has them."""

    name: str
    row: str
    spec: Callable[[Dataset, int], WorkerSpec]
    roles: Sequence[EncoderRole]
    samples_per_process: int
    extra: Callable[[Dataset], Sequence[Task]] = lambda dataset: ()

    def loaded(self, dataset: Dataset) -> list[EncoderRole]:
        """Those of the roles that the dataset's model has."""
        return [role for role in self.roles if role in dataset.identities]


def encode_latents_asset(
    dataset: Dataset, *, wait_minutes: float, op_tags: dict[str, Any]
) -> dg.AssetsDefinition:
    """The asset of the shards' latents."""
    stage = EncodeStage(
        "encode_latents",
        row="The VAE latents of a shard's pictures or clips, one row per sample.",
        spec=latents_spec,
        roles=("vae",),
        samples_per_process=SAMPLES_PER_PROCESS,
    )
    return encode_asset(dataset, stage, wait_minutes=wait_minutes, op_tags=op_tags)


def encode_asset(
    dataset: Dataset, stage: EncodeStage, *, wait_minutes: float, op_tags: dict[str, Any]
) -> dg.AssetsDefinition:
    """The asset of the rows that an encode stage makes of the shards' members."""

    @partitioned_stage(
        dataset.name,
        stage.name,
        reads=["shard_members"],
        kind="safetensors",
        pool="gpu",
        op_tags=op_tags,
    )
    def encode(
        context: dg.AssetExecutionContext,
        config: EncodeConfig,
        engines: dg.ResourceParam[Engines],
        progress: dg.ResourceParam[Progress],
    ) -> Iterator[Any]:
        log, execution = context.log.info, dataset.loaded.execution
        mark_run(context, dataset.loaded.recipe_hash)
        locks = StepLocks(dataset.layout, stage.name, context.run.run_id, wait_minutes, log)
        members = stage_key(dataset.name, "shard_members")
        with locks.together():
            run = encode_run(dataset, stage, keys=context.partition_keys, config=config)
            yield from recorded(
                context,
                run.results(
                    lambda load: engines.device(
                        load,
                        device=config.device or execution.device,
                        workers=config.workers,
                    ),
                    progress=progress,
                    log=log,
                ),
                upstreams=[Upstream(members, partitioned=True, observed=True)],
            )

    return encode.map_asset_specs(lambda spec: spec.replace_attributes(description=stage.row))


def encode_run(
    dataset: Dataset, stage: EncodeStage, *, keys: Sequence[str], config: EncodeConfig
) -> PartitionRun:
    """What the stage is to do for these shards."""
    return PartitionRun(
        stage=stage.name,
        unit="shards",
        tasks=[
            PartitionTask(
                shard.shard,
                shard.num_samples,
                dataset.encode_fingerprints(shard)[stage.name],
                retry_rejects=config.retry_rejects,
            )
            for shard in planned(dataset, keys)
        ],
        finished=lambda task: finished_rows(dataset.layout, stage.name, task),
        spec=stage.spec(dataset, config.batch_size or dataset.loaded.execution.batch_size),
        recipe_hash=dataset.loaded.recipe_hash,
        samples_per_process=stage.samples_per_process,
        max_reject_rate=dataset.recipe.output.max_reject_rate,
        worker_bytes=lambda: dataset.encoders.weights_bytes(*stage.loaded(dataset)),
        imports=dataset.encoders.modules,
        extra=stage.extra(dataset),
    )
