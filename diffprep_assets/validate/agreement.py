"""Whether a dataset's formats hold the same samples, by the records of their finished shards."""

from collections import Counter
from collections.abc import Sequence

from diffprep_assets.dataset import Dataset
from diffprep_assets.shard.record import ShardRecord, read_record
from diffprep_assets.shard_plan.plan import PlannedShard, sized
from diffprep_assets.validate.report import Check, Failure

NAME = "agreement"


def agreement_check(dataset: Dataset, shards: Sequence[PlannedShard]) -> Check:
    """Every shard was made of the plan's own members (ids, source keys, picture and caption
    digests) in every format, and each of them is there or a reject of that format.

    No shard is read. What one format could not write and another could is told, not failed.
    """
    failures: list[Failure] = []
    alone: Counter[str] = Counter()
    formats = dataset.recipe.output.formats
    for shard in shards:
        left_out: dict[str, set[int]] = {}
        for format in formats:
            record = read_record(dataset.layout.of(format).shard_record(shard.shard))
            failures += [
                Failure(f"{format}: shard {shard.shard} {problem}")
                for problem in _problems(record, shard)
            ]
            left_out[format] = {r.sample_id for r in record.rejects} if record else set()
        everywhere = set.intersection(*left_out.values())
        alone.update({format: len(ids - everywhere) for format, ids in left_out.items()})
    planned = sum(shard.num_samples for shard in shards)
    words = [f"{count:,} not in {format}" for format, count in alone.items() if count]
    message = f"{planned:,} samples in {' and '.join(formats)}" + "".join(f", {w}" for w in words)
    return Check(NAME, message, tuple(failures))


def _problems(record: ShardRecord | None, shard: PlannedShard) -> list[str]:
    if record is None:
        return ["has no record"]
    problems = []
    if record.inputs.get("shard_members") != shard.members_digest:
        problems.append("was made of other samples or captions than the plan holds")
    if record.num_samples + len(record.rejects) != shard.num_samples:
        problems.append(
            f"holds {record.num_samples} samples and {len(record.rejects)} rejects of "
            f"{shard.num_samples}"
        )
    size = sized(record.width, record.height, record.frames)
    if size != shard.bucket.size:
        problems.append(f"is of {size} pixels")
    return problems
