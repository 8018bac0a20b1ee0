"""Samples that fill no batch in one pass, exactly as energon deals samples to ranks and workers."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from diffprep_assets.shard_plan.plan import Bucket, PlannedShard


@dataclass(slots=True)
class Batches:
    """Full batches and samples left over, by bucket."""

    full: Counter[Bucket] = field(default_factory=Counter)
    left_over: Counter[Bucket] = field(default_factory=Counter)


def batches_of_pass(
    shards: Iterable[PlannedShard],
    *,
    batch_size: int,
    streams: int,
    skips: Mapping[str, Sequence[bool]],
) -> Batches:
    """One pass over the train shards, which come in the order that they are published in.

    Each stream (a worker of a rank) reads a run of neighbouring samples and makes batches within a
    bucket. Skipped samples count in the runs and fill no batch; `skips` says of each sample of a
    shard that has some whether it is one. A shard with nothing left is in no run. Needs energon,
    for its own rule of who reads what.
    """
    read = [
        shard
        for shard in shards
        if shard.split == "train" and shard.num_skipped < shard.num_samples
    ]
    result = Batches()
    for counts in _counts_by_stream(read, _ends(read, streams), skips):
        for bucket, count in counts.items():
            result.full[bucket] += count // batch_size
            result.left_over[bucket] += count % batch_size
    return result


def fastvideo_batches(shards: Iterable[PlannedShard], *, batch_size: int, ranks: int) -> Batches:
    """One pass over the train rows of each bucket, which is a training run of its own.

    FastVideo deals rows to the ranks as batches of all of them, whatever the workers, and drops
    what does not fill one (fastvideo/dataset/parquet_dataset_map_style.py, DP_SP_BatchSampler).
    """
    train: Counter[Bucket] = Counter()
    for shard in shards:
        if shard.split == "train":
            train[shard.bucket] += shard.num_samples - shard.num_skipped
    result = Batches()
    for bucket, count in train.items():
        result.full[bucket] = count // (batch_size * ranks) * ranks
        result.left_over[bucket] = count % (batch_size * ranks)
    return result


def _ends(shards: Sequence[PlannedShard], streams: int) -> list[int]:
    """Where each stream's samples end."""
    from megatron.energon import WorkerConfig
    from megatron.energon.flavors.webdataset.sharder import Sharder

    # Energon deals the same to N ranks of W workers as to one rank of N x W.
    config = WorkerConfig(rank=0, world_size=1, num_workers=streams)
    total = sum(shard.num_samples for shard in shards)
    return list(Sharder.split_samples_to_workers(0, total, config))[1:]


def _counts_by_stream(
    shards: Sequence[PlannedShard], ends: Sequence[int], skips: Mapping[str, Sequence[bool]]
) -> Iterator[Counter[Bucket]]:
    """Samples of each stream by bucket."""
    counts: Counter[Bucket] = Counter()
    at, rest = 0, iter(ends)
    end = next(rest)
    for shard in shards:
        left, flags = shard.num_samples, skips.get(shard.shard, ())
        while left:
            taken = min(left, end - at)
            start = shard.num_samples - left
            counts[shard.bucket] += taken - sum(flags[start : start + taken])
            at, left = at + taken, left - taken
            while at == end:
                yield counts
                counts = Counter()
                end = next(rest, -1)
