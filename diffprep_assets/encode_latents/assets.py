"""encode_latents: each picture of a shard through the VAE."""

from collections.abc import Iterator
from typing import Any

import dagster as dg
from pydantic import Field

from diffprep_assets.dataset import Dataset
from diffprep_assets.dataset_locks import StepLocks
from diffprep_assets.encode_latents.worker import LatentsSpec
from diffprep_assets.encoded_shard import finished_rows
from diffprep_assets.partition_run import PartitionRun
from diffprep_assets.partition_worker import PartitionTask
from diffprep_assets.partitions import mark_run, partitioned_stage, stage_key
from diffprep_assets.shard_events import Upstream, recorded
from diffprep_assets.stage_inputs import planned
from diffprep_resources.compute.engines import Engines
from diffprep_resources.encoders.modules import ENCODER_MODULES
from diffprep_resources.pictures.decode import PictureLimits
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


def encode_latents_asset(
    dataset: Dataset, *, wait_minutes: float, op_tags: dict[str, Any]
) -> dg.AssetsDefinition:
    """The asset of the shards' latents."""

    @partitioned_stage(
        dataset.name,
        "encode_latents",
        reads=["shard_members"],
        kind="safetensors",
        pool="gpu",
        op_tags=op_tags,
    )
    def encode_latents(
        context: dg.AssetExecutionContext,
        config: EncodeConfig,
        engines: dg.ResourceParam[Engines],
        progress: dg.ResourceParam[Progress],
    ) -> Iterator[Any]:
        """The VAE latents of a shard's pictures, one row per sample."""
        layout, log, execution = dataset.layout, context.log.info, dataset.loaded.execution
        image = dataset.recipe.image
        mark_run(context, dataset.loaded.recipe_hash)
        locks = StepLocks(dataset.layout, "encode_latents", context.run.run_id, wait_minutes, log)
        with locks.together():
            run = PartitionRun(
                stage="encode_latents",
                unit="shards",
                tasks=[
                    PartitionTask(
                        shard.shard,
                        shard.num_samples,
                        dataset.latents_fingerprint(shard),
                        retry_rejects=config.retry_rejects,
                    )
                    for shard in planned(dataset, context.partition_keys)
                ],
                finished=lambda task: finished_rows(layout, "encode_latents", task),
                spec=LatentsSpec(
                    layout,
                    dataset.source,
                    dataset.encoders,
                    dataset.latents_settings,
                    image.background,
                    PictureLimits(max_pixels=image.max_pixels, min_side=image.min_side),
                    config.batch_size or execution.batch_size,
                ),
                recipe_hash=dataset.loaded.recipe_hash,
                samples_per_process=SAMPLES_PER_PROCESS,
                max_reject_rate=dataset.recipe.output.max_reject_rate,
                worker_bytes=lambda: dataset.encoders.weights_bytes("vae"),
                imports=ENCODER_MODULES,
            )
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
                upstreams=[
                    Upstream(
                        stage_key(dataset.name, "shard_members"), partitioned=True, observed=True
                    )
                ],
            )

    return encode_latents
