"""The finished shards of one format, all fresh, which its prepare stage publishes."""

from collections.abc import Sequence

from diffprep_assets.dataset import Dataset
from diffprep_assets.partition_worker import PartitionTask
from diffprep_assets.recipe.formats import SHARD_STAGE, Format
from diffprep_assets.shard.finished import finished_shard
from diffprep_assets.shard.record import ShardRecord, read_record
from diffprep_assets.shard_plan.plan import PlannedShard
from diffprep_assets.stage_inputs import missing_partitions


def fresh_records(
    dataset: Dataset, shards: Sequence[PlannedShard], *, format: Format
) -> list[ShardRecord]:
    """The record of every one of these shards in the format, in their order. Raises StageInputError
    naming those that are missing or stale."""
    layout = dataset.layout.of(format)
    records, stale = [], []
    for shard in shards:
        wanted = dataset.format_fingerprint(shard, format)
        task = PartitionTask(shard.shard, shard.num_samples, wanted)
        record = read_record(layout.shard_record(shard.shard))
        if record is None or finished_shard(layout, task) is None:
            stale.append(shard.shard)
        else:
            records.append(record)
    if stale:
        raise missing_partitions(dataset, SHARD_STAGE[format], stale, unit="shards")
    return records
