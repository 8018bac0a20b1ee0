"""What curation asks of the plan that is there: whose ids samples have, and which are written."""

from collections.abc import Collection, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from diffprep_assets.layout import Layout
from diffprep_assets.shard_plan.written import ids_of_file
from diffprep_resources.storage.parquet_tables import has_table, readable_table


def keys_of_ids(layout: Layout, ids: Collection[int]) -> dict[int, str]:
    """The source key of each of these sample ids that the plan knows."""
    if not ids or not has_table(layout.shard_plan):
        return {}
    with readable_table(layout.shard_plan):
        wanted = pc.field("sample_id").isin(list(ids))
        table = pq.read_table(
            layout.shard_plan, columns=["sample_id", "source_key"], filters=wanted
        )
    columns = (table.column(name).to_pylist() for name in ("sample_id", "source_key"))
    return dict(zip(*columns, strict=True))


def written_keys(layouts: Sequence[Layout]) -> pa.Array:
    """The source keys of all samples whose shard is written in some of a dataset's layouts."""
    nobody = pa.array([], pa.string())
    plan = layouts[0].shard_plan
    if not has_table(plan):
        return nobody
    with readable_table(plan):
        table = pq.read_table(plan, columns=["sample_id", "shard", "source_key"])
    table = table.filter(table.column("shard").is_valid())
    ids: list[int] = []
    for shard in table.column("shard").unique().to_pylist():
        for layout in layouts:
            ids.extend(ids_of_file(layout, shard))
    written = table.filter(pc.field("sample_id").isin(pa.array(ids, pa.int64())))
    return written.column("source_key").combine_chunks()
