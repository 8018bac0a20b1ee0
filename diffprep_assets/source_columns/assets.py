"""source_columns: the source's own fields that curation or a format asks for."""

from collections.abc import Iterator
from typing import Any

import dagster as dg

from diffprep_assets.dataset import Dataset
from diffprep_assets.dataset_locks import StepLocks
from diffprep_assets.partition_run import PartitionRun
from diffprep_assets.partitions import mark_run, partitioned_stage, stage_key
from diffprep_assets.recipe.stage_fields import columns_fields
from diffprep_assets.shard_events import Upstream, recorded
from diffprep_assets.source_columns.worker import (
    STAGE,
    ColumnsSpec,
    columns_task,
    finished_columns,
)
from diffprep_assets.stage_inputs import missing_partitions
from diffprep_resources.compute.engines import Engines
from diffprep_resources.progress.base import Progress

# What a worker process gets through while another one starts.
SAMPLES_PER_PROCESS = 20_000


def source_columns_asset(dataset: Dataset, *, wait_minutes: float) -> dg.AssetsDefinition:
    """The asset of the parts' fields."""

    @partitioned_stage(dataset.name, STAGE, reads=["bucket"], kind="parquet")
    def source_columns(
        context: dg.AssetExecutionContext,
        engines: dg.ResourceParam[Engines],
        progress: dg.ResourceParam[Progress],
    ) -> Iterator[Any]:
        """One row per kept sample of a part: the fields of the source that the recipe names."""
        layout, log = dataset.layout, context.log.info
        settings, source = columns_fields(dataset.recipe), dataset.source
        mark_run(context, dataset.loaded.recipe_hash)
        locks = StepLocks(layout, STAGE, context.run.run_id, wait_minutes, log)
        with locks.together():
            found = {
                key: columns_task(layout, key, source=source, settings=settings)
                for key in context.partition_keys
            }
            missing = [key for key, task in found.items() if task is None]
            if missing:
                raise missing_partitions(dataset, "bucket", missing, unit="parts")
            run = PartitionRun(
                stage=STAGE,
                unit="parts",
                tasks=[task for task in found.values() if task is not None],
                finished=lambda task: finished_columns(layout, task),
                spec=ColumnsSpec(layout, source, settings),
                recipe_hash=dataset.loaded.recipe_hash,
                samples_per_process=SAMPLES_PER_PROCESS,
            )
            yield from recorded(
                context,
                run.results(engines.cpu, progress=progress, log=log),
                upstreams=[Upstream(stage_key(dataset.name, "bucket"), partitioned=True)],
            )

    return source_columns
