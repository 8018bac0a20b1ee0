"""What of the plan is written already: a verdict against such a sample rewrites no shard."""

from collections.abc import Iterable, Mapping, Sequence

from diffprep_assets.curate.table import Verdict
from diffprep_assets.dataset import Dataset
from diffprep_assets.encoded_rows import whole_record
from diffprep_assets.layout import Layout
from diffprep_assets.shard.record import sample_columns
from diffprep_assets.shard_plan.plan import Plan, PlannedSample
from diffprep_assets.shard_plan.planning import Curation
from diffprep_resources.storage.parquet_tables import DamagedTableError


def curation_of(
    dataset: Dataset,
    plan: Plan,
    verdicts: Mapping[str, Verdict],
    *,
    drop_skipped: bool = False,
) -> Curation:
    """What the verdicts, by source_key, say against samples, and which of those are written."""
    against = {key: verdict.rule or "" for key, verdict in verdicts.items() if not verdict.keep}
    concerned = (row for row in plan.samples if row.sample.source_key in against)
    layouts = [dataset.layout.of(format) for format in dataset.recipe.output.formats]
    return Curation(against, written_samples(layouts, concerned), drop_skipped)


def written_samples(layouts: Sequence[Layout], samples: Iterable[PlannedSample]) -> frozenset[int]:
    """The ids of those samples that their shard's whole file holds in some of the layouts, or that
    it was written without since they could not be encoded."""
    wanted: dict[str, set[int]] = {}
    for row in samples:
        if row.shard is not None:
            wanted.setdefault(row.shard, set()).add(row.sample_id)
    written: set[int] = set()
    for shard, ids in wanted.items():
        for layout in layouts:
            written |= ids & ids_of_file(layout, shard)
    return frozenset(written)


def ids_of_file(layout: Layout, shard: str) -> set[int]:
    """The ids that a shard's whole file holds, or was written without; none without such a file."""
    record = whole_record(layout, shard)
    if record is None:
        return set()
    try:
        (ids,) = sample_columns(layout.shard_samples(shard), "sample_id")
    except DamagedTableError:
        # The shard is to be written anew, by what is found where it is read next.
        return set()
    return {*ids, *(reject.sample_id for reject in record.rejects)}
