"""picture_hash: the perceptual hash of each kept picture."""

from collections.abc import Iterator
from typing import Any

import dagster as dg

from diffprep_assets.dataset import Dataset
from diffprep_assets.dataset_locks import StepLocks
from diffprep_assets.partition_run import PartitionRun
from diffprep_assets.partitions import mark_run, partitioned_stage, stage_key
from diffprep_assets.picture_hash.worker import STAGE, HashSpec, finished_hashes, hash_task
from diffprep_assets.recipe.stage_fields import hash_fields
from diffprep_assets.shard_events import Upstream, recorded
from diffprep_assets.stage_inputs import missing_partitions
from diffprep_resources.compute.engines import Engines
from diffprep_resources.pictures.opening import PictureLimits
from diffprep_resources.progress.base import Progress

# What a worker process gets through while another one starts.
SAMPLES_PER_PROCESS = 1_000


def picture_hash_asset(dataset: Dataset, *, wait_minutes: float) -> dg.AssetsDefinition:
    """The asset of the parts' hashes."""

    @partitioned_stage(dataset.name, STAGE, reads=["bucket"], kind="parquet")
    def picture_hash(
        context: dg.AssetExecutionContext,
        engines: dg.ResourceParam[Engines],
        progress: dg.ResourceParam[Progress],
    ) -> Iterator[Any]:
        """One row per kept picture of a part: the 64 bits by which near-duplicates are found."""
        layout, log = dataset.layout, context.log.info
        settings, image = hash_fields(dataset.recipe), dataset.recipe.image
        mark_run(context, dataset.loaded.recipe_hash)
        locks = StepLocks(layout, STAGE, context.run.run_id, wait_minutes, log)
        with locks.together():
            found = {
                key: hash_task(layout, key, settings=settings) for key in context.partition_keys
            }
            missing = [key for key, task in found.items() if task is None]
            if missing:
                raise missing_partitions(dataset, "bucket", missing, unit="parts")
            run = PartitionRun(
                stage=STAGE,
                unit="parts",
                tasks=[task for task in found.values() if task is not None],
                finished=lambda task: finished_hashes(layout, task),
                spec=HashSpec(
                    layout,
                    dataset.source,
                    settings,
                    PictureLimits(max_pixels=image.max_pixels, min_side=image.min_side),
                    image.background,
                ),
                recipe_hash=dataset.loaded.recipe_hash,
                samples_per_process=SAMPLES_PER_PROCESS,
            )
            yield from recorded(
                context,
                run.results(engines.cpu, progress=progress, log=log),
                upstreams=[Upstream(stage_key(dataset.name, "bucket"), partitioned=True)],
            )

    return picture_hash
