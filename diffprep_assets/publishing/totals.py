"""How many samples a format's output holds, against those that the source has: none is lost."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import chain

import pyarrow.parquet as pq

from diffprep_assets.dataset import Dataset
from diffprep_assets.rejects import Reject, rejects_before_encoding, write_rejects
from diffprep_assets.shard.record import ShardRecord, read_record
from diffprep_assets.shard_plan.plan import PlannedShard
from diffprep_assets.source_index.table import SourceIndex
from diffprep_assets.stage_inputs import missing_partitions
from diffprep_resources.errors import DiffprepError


@dataclass(frozen=True, slots=True)
class SampleTotals:
    """listed = written + rejected, and `rejects` are those by code."""

    listed: int
    written: int
    rejects: Counter[str]

    @property
    def rejected(self) -> int:
        return self.rejects.total()


def sample_totals(
    dataset: Dataset,
    shards: Sequence[PlannedShard],
    records: Sequence[ShardRecord],
    *,
    index: SourceIndex,
) -> SampleTotals:
    """The totals of the format whose finished shards have these records; the whole view of rejects,
    over all formats, is written anew.

    Raises StageInputError for a missing part, DiffprepError where the totals do not add up.
    """
    layout = dataset.layout
    tables = [(part, layout.bucket(part)) for part in index.parts.parts]
    gone = [part for part, path in tables if not path.exists()]
    if gone:
        raise missing_partitions(dataset, "bucket", gone, unit="parts")
    before = list(rejects_before_encoding(layout, tables))
    write_rejects(layout.rejects, chain(before, _of_shards(dataset, shards)))
    ours = (reject for record in records for reject in record.rejects)
    totals = SampleTotals(
        listed=sum(pq.read_metadata(path).num_rows for _, path in tables),
        written=sum(record.num_samples for record in records),
        rejects=Counter(reject.code for reject in chain(before, ours)),
    )
    check_counts(dataset.name, listed=totals.listed, written=totals.written, rejects=totals.rejects)
    return totals


def _of_shards(dataset: Dataset, shards: Sequence[PlannedShard]) -> Iterator[Reject]:
    """Whom the finished shards do not hold, whatever the format: once for each stage that says so.
    All formats leave out whom encoding left out."""
    layouts = [dataset.layout.of(format) for format in dataset.recipe.output.formats]
    for shard in shards:
        told: set[tuple[str, int]] = set()
        for record in (read_record(layout.shard_record(shard.shard)) for layout in layouts):
            for reject in record.rejects if record else ():
                if (reject.stage, reject.sample_id) not in told:
                    told.add((reject.stage, reject.sample_id))
                    row = {k: value for k, value in asdict(reject).items() if k != "fingerprint"}
                    yield Reject(**row, shard=shard.shard)


def check_counts(dataset: str, *, listed: int, written: int, rejects: Counter[str]) -> None:
    """Raises DiffprepError unless every sample of the bucket tables is written or rejected."""
    rejected = sum(rejects.values())
    if listed != written + rejected:
        raise DiffprepError(
            f"{dataset}: the counts do not add up: {listed} samples listed by bucket, but "
            f"{written} written and {rejected} rejected {dict(sorted(rejects.items()))}; nothing "
            f"was published. Run `diffprep run {dataset}`; if it says the same, this is a fault of "
            f"diffprep"
        )
