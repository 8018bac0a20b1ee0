"""How a trainer would read the plan: what one pass over train makes of each bucket."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from diffprep_assets.dataset import Dataset
from diffprep_assets.plan_report.facts import BucketFacts, LoadingFacts
from diffprep_assets.plan_report.left_over import Batches, batches_of_pass, fastvideo_batches
from diffprep_assets.shard_plan.plan import Bucket, PlannedShard
from diffprep_assets.shard_plan.skipped import skip_flags


@dataclass(frozen=True, slots=True)
class Loading:
    """How a trainer would read: samples in a batch of one rank, ranks, workers of each."""

    batch_size: int
    ranks: int
    workers: int


def with_loading(
    dataset: Dataset,
    buckets: Mapping[Bucket, BucketFacts],
    shards: Sequence[PlannedShard],
    loading: Loading,
) -> tuple[dict[Bucket, BucketFacts], LoadingFacts]:
    """The facts of each bucket with its shards and batches, and those of the whole pass."""
    batches = _batches(dataset, shards, loading)
    train: Counter[Bucket] = Counter()
    skipped: Counter[Bucket] = Counter()
    of_bucket: Counter[Bucket] = Counter()
    for shard in shards:
        of_bucket[shard.bucket] += 1
        skipped[shard.bucket] += shard.num_skipped
        if shard.split == "train":
            train[shard.bucket] += shard.num_samples - shard.num_skipped
    result = {
        bucket: replace(
            facts,
            shards=of_bucket[bucket],
            skipped=skipped[bucket],
            train=train[bucket],
            batches=batches.full[bucket],
            left_over=batches.left_over[bucket],
        )
        for bucket, facts in buckets.items()
    }
    return result, LoadingFacts(
        batch_size=loading.batch_size,
        ranks=loading.ranks,
        workers=loading.workers,
        samples=train.total(),
        batches=batches.full.total(),
        left_over=batches.left_over.total(),
    )


def _batches(dataset: Dataset, shards: Sequence[PlannedShard], loading: Loading) -> Batches:
    if "fastvideo" in dataset.recipe.output.formats:
        return fastvideo_batches(shards, batch_size=loading.batch_size, ranks=loading.ranks)
    with_skips = [shard.shard for shard in shards if shard.num_skipped]
    return batches_of_pass(
        shards,
        batch_size=loading.batch_size,
        streams=loading.ranks * max(1, loading.workers),
        skips=skip_flags(dataset.layout, with_skips) if with_skips else {},
    )
