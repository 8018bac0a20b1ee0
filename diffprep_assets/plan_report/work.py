"""What of a plan is made already: by shard, the stages that are done."""

from collections.abc import Mapping, Sequence

from diffprep_assets.dataset import Dataset
from diffprep_assets.encoded_shard import finished_rows
from diffprep_assets.partition_worker import PartitionTask
from diffprep_assets.recipe.formats import SHARD_STAGE
from diffprep_assets.recipe.schema import Recipe
from diffprep_assets.shard.finished import finished_shard
from diffprep_assets.shard_plan.plan import PlannedShard

Made = Mapping[str, frozenset[str]]
"""By shard: the stages, of those that the recipe has, whose part in it is done."""


def finished_stages(recipe: Recipe) -> frozenset[str]:
    """The stages that write finished shards: with all of them done, a shard is."""
    return frozenset(SHARD_STAGE[name] for name in recipe.output.formats)


def made_already(dataset: Dataset, shards: Sequence[PlannedShard]) -> dict[str, frozenset[str]]:
    """By shard, what is there and fresh. Where every finished file is, encoding is done too."""
    finished = finished_stages(dataset.recipe)
    made = {}
    for shard in shards:
        encoded = dataset.encode_fingerprints(shard)
        done = {
            SHARD_STAGE[name]
            for name in dataset.recipe.output.formats
            if finished_shard(
                dataset.layout.of(name),
                PartitionTask(
                    shard.shard, shard.num_samples, dataset.format_fingerprint(shard, name)
                ),
            )
        }
        done |= {
            stage
            for stage, wanted in encoded.items()
            if done >= finished
            or finished_rows(
                dataset.layout, stage, PartitionTask(shard.shard, shard.num_samples, wanted)
            )
        }
        made[shard.shard] = frozenset(done)
    return made
