"""bucket: opens each new or changed picture or clip once."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import dagster as dg

from diffprep_assets.bucket.scan import BucketRules
from diffprep_assets.bucket.worker import BucketSpec, bucket_task, finished_bucket
from diffprep_assets.dataset import Dataset
from diffprep_assets.dataset_locks import StepLocks
from diffprep_assets.event_pictures import part_pictures
from diffprep_assets.partition_run import Done, Failed, PartitionRun
from diffprep_assets.partitions import RetryConfig, mark_run, partitioned_stage, stage_key
from diffprep_assets.recipe.stage_fields import bucket_fields
from diffprep_assets.shard_events import Upstream, recorded
from diffprep_assets.source_index.table import read_head
from diffprep_assets.stage_inputs import missing_partitions, missing_whole_stage
from diffprep_resources.compute.engines import Engines
from diffprep_resources.progress.base import Progress

# What a worker process gets through while another one starts.
SAMPLES_PER_PROCESS = 1_000
# Thousands of parts would fill Dagster's log with pictures that nobody looks at.
PARTS_SHOWN = 20


def bucket_asset(dataset: Dataset, *, wait_minutes: float) -> dg.AssetsDefinition:
    """The asset of the parts' samples."""

    @partitioned_stage(dataset.name, "bucket", reads=["download"], kind="parquet")
    def bucket(
        context: dg.AssetExecutionContext,
        config: RetryConfig,
        engines: dg.ResourceParam[Engines],
        progress: dg.ResourceParam[Progress],
    ) -> Iterator[Any]:
        """One row per sample of a part: size, digest, caption and bucket, or why it is left out."""
        layout, log = dataset.layout, context.log.info
        settings = bucket_fields(dataset.recipe)
        mark_run(context, dataset.loaded.recipe_hash)
        locks = StepLocks(dataset.layout, "bucket", context.run.run_id, wait_minutes, log)
        with locks.together():
            head = read_head(layout.source_index)
            if head is None:
                raise missing_whole_stage(dataset, "source_index")
            limits = head["limits"]
            tasks = {
                key: bucket_task(
                    layout,
                    key,
                    settings=settings,
                    limit=limits.get(key),
                    retry_rejects=config.retry_rejects,
                )
                for key in context.partition_keys
            }
            missing = [key for key, task in tasks.items() if task is None]
            if missing:
                raise missing_partitions(dataset, "download", missing, unit="parts")
            run = PartitionRun(
                stage="bucket",
                unit="parts",
                tasks=[task for task in tasks.values() if task is not None],
                finished=lambda task: finished_bucket(layout, task),
                spec=BucketSpec(
                    layout,
                    dataset.source,
                    BucketRules.of(dataset.recipe),
                    settings,
                ),
                recipe_hash=dataset.loaded.recipe_hash,
                samples_per_process=SAMPLES_PER_PROCESS,
            )
            yield from recorded(
                context,
                _with_pictures(run.results(engines.cpu, progress=progress, log=log), dataset),
                upstreams=[Upstream(stage_key(dataset.name, "download"), partitioned=True)],
            )

    return bucket


def _with_pictures(results: Iterable[Done | Failed], dataset: Dataset) -> Iterator[Done | Failed]:
    """The results, the first parts that were made with a few of their pictures."""
    left = PARTS_SHOWN
    for result in results:
        if left and isinstance(result, Done) and not result.reused:
            left -= 1
            pictures = part_pictures(dataset, result.key)
            if pictures:
                shown = {**result.metadata, "pictures": dg.MetadataValue.md(pictures)}
                yield replace(result, metadata=shown)
                continue
        yield result
