"""encode_text: each caption of a shard through T5 and CLIP."""

from collections.abc import Iterator
from typing import Any

import dagster as dg

from diffprep_assets.dataset import Dataset
from diffprep_assets.dataset_locks import StepLocks
from diffprep_assets.encode_latents.assets import EncodeConfig
from diffprep_assets.encode_text.worker import EmptyCaptionTask, TextSpec, empty_caption_is_fresh
from diffprep_assets.encoded_shard import finished_rows
from diffprep_assets.partition_run import PartitionRun
from diffprep_assets.partition_worker import PartitionTask
from diffprep_assets.partitions import mark_run, partitioned_stage, stage_key
from diffprep_assets.shard_events import Upstream, recorded
from diffprep_assets.stage_inputs import planned
from diffprep_resources.compute.engines import Engines
from diffprep_resources.encoders.modules import ENCODER_MODULES
from diffprep_resources.progress.base import Progress

# What a worker process gets through while another one starts.
SAMPLES_PER_PROCESS = 500


def encode_text_asset(
    dataset: Dataset, *, wait_minutes: float, op_tags: dict[str, Any]
) -> dg.AssetsDefinition:
    """The asset of the shards' text embeddings."""

    @partitioned_stage(
        dataset.name,
        "encode_text",
        reads=["shard_members"],
        kind="safetensors",
        pool="gpu",
        op_tags=op_tags,
    )
    def encode_text(
        context: dg.AssetExecutionContext,
        config: EncodeConfig,
        engines: dg.ResourceParam[Engines],
        progress: dg.ResourceParam[Progress],
    ) -> Iterator[Any]:
        """The T5 and CLIP embeddings of a shard's captions, one row per sample."""
        layout, log, execution = dataset.layout, context.log.info, dataset.loaded.execution
        mark_run(context, dataset.loaded.recipe_hash)
        locks = StepLocks(dataset.layout, "encode_text", context.run.run_id, wait_minutes, log)
        with locks.together():
            empty = dataset.empty_text_fingerprint
            run = PartitionRun(
                stage="encode_text",
                unit="shards",
                tasks=[
                    PartitionTask(
                        shard.shard,
                        shard.num_samples,
                        dataset.text_fingerprint(shard),
                        retry_rejects=config.retry_rejects,
                    )
                    for shard in planned(dataset, context.partition_keys)
                ],
                finished=lambda task: finished_rows(layout, "encode_text", task),
                spec=TextSpec(
                    layout,
                    dataset.encoders,
                    dataset.text_settings,
                    config.batch_size or execution.batch_size,
                ),
                recipe_hash=dataset.loaded.recipe_hash,
                samples_per_process=SAMPLES_PER_PROCESS,
                max_reject_rate=dataset.recipe.output.max_reject_rate,
                worker_bytes=lambda: dataset.encoders.weights_bytes("t5", "clip"),
                imports=ENCODER_MODULES,
                extra=() if empty_caption_is_fresh(layout, empty) else (EmptyCaptionTask(empty),),
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

    return encode_text
