"""What the entries of a skip list find in a dataset, and where those samples are now."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from diffprep_assets.curate.plan_facts import keys_of_ids
from diffprep_assets.curate.skip_files import SkipEntry
from diffprep_assets.layout import Layout
from diffprep_assets.shard_plan.skipped import skipped_keys
from diffprep_assets.source_index.table import read_index
from diffprep_resources.storage.parquet_tables import has_table


@dataclass(frozen=True, slots=True)
class ListMatches:
    """The samples, by source key, that the entries of a list name, as far as source and plan are
    known: `skipped` ones stay written, `served` ones a trainer gets (for as long as no run took
    the list into account), the others are in no shard. `unmatched` are entries that name none."""

    entries: int
    samples: frozenset[str]
    skipped: frozenset[str]
    served: frozenset[str]
    unmatched: tuple[str, ...]

    @property
    def left_out(self) -> int:
        return len(self.samples) - len(self.skipped) - len(self.served)


def list_matches(layout: Layout, entries: Sequence[SkipEntry]) -> ListMatches:
    """What the entries name in the bucket tables and the plan that are on disk: as `curate` finds
    them, also by the picture's key, which all its captions share."""
    asked = {
        kind: {entry.entry for entry in entries if entry.kind == kind}
        for kind in ("source_key", "sample_id", "digest")
    }
    by_id = keys_of_ids(layout, {int(entry) for entry in asked["sample_id"]})
    samples = set(by_id.values())
    found = {f"{sample_id:010d}" for sample_id in by_id}
    wanted = {
        "source_key": pa.array(sorted(asked["source_key"]), pa.string()),
        "group": pa.array(sorted(asked["source_key"] | samples), pa.string()),
        "image_digest": pa.array(sorted(asked["digest"]), pa.string()),
    }
    for table in _bucket_tables(layout):
        for column, values in wanted.items():
            some = table.filter(pc.field(column).isin(values))
            found.update(some.column(column).to_pylist())
            samples.update(some.column("source_key").to_pylist())
    in_shards = _keys_in_shards(layout, samples)
    skipped = in_shards & skipped_keys(layout.shard_plan)
    return ListMatches(
        entries=len(entries),
        samples=frozenset(samples),
        skipped=skipped,
        served=in_shards - skipped,
        unmatched=tuple(entry.entry for entry in entries if entry.entry not in found),
    )


def _bucket_tables(layout: Layout) -> Iterable[pa.Table]:
    index = read_index(layout.source_index)
    for part in index.parts.parts if index else ():
        if has_table(layout.bucket(part)):
            yield pq.read_table(
                layout.bucket(part), columns=["source_key", "group", "image_digest"]
            )


def _keys_in_shards(layout: Layout, keys: set[str]) -> frozenset[str]:
    """Which of the samples the plan has in a shard."""
    if not keys or not has_table(layout.shard_plan):
        return frozenset()
    wanted = pc.field("shard").is_valid() & pc.field("source_key").isin(sorted(keys))
    table = pq.read_table(layout.shard_plan, columns=["source_key"], filters=wanted)
    return frozenset(table.column("source_key").to_pylist())
