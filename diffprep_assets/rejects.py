"""Every sample left out, with stage, reason code and message: one view over where they arose."""

from collections import Counter
from collections.abc import Container, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from diffprep_assets.curate.table import Verdict, iter_verdicts
from diffprep_assets.layout import Layout
from diffprep_assets.shard_plan.plan import SplitLeak
from diffprep_assets.shard_plan.skipped import skipped_keys
from diffprep_assets.shard_plan.table import leaks_of, read_head
from diffprep_resources.storage.atomic import replace_file

SCHEMA = pa.schema(
    [
        pa.field("stage", pa.string(), nullable=False),
        pa.field("code", pa.string(), nullable=False),
        pa.field("message", pa.string(), nullable=False),
        pa.field("source_key", pa.string(), nullable=False),
        pa.field("part", pa.string()),
        pa.field("shard", pa.string()),
        pa.field("sample_id", pa.int64()),
        pa.field("transient", pa.bool_(), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True)
class Reject:
    """One sample left out. `shard` and `sample_id` are None before the plan."""

    stage: str
    code: str
    message: str
    source_key: str
    part: str | None = None
    shard: str | None = None
    sample_id: int | None = None
    transient: bool = False


def bucket_rejects(tables: Iterable[tuple[str, Path]]) -> Iterator[Reject]:
    """What `bucket` rejected, over (part, path) of its tables."""
    columns = ["source_key", "code", "message", "transient"]
    for part, path in tables:
        table = pq.read_table(path, columns=columns, filters=pc.field("code").is_valid())
        for row in table.to_pylist():
            yield Reject("bucket", part=part, **row)


def curate_rejects(verdicts: Iterable[Verdict], *, skipped: Container[str]) -> Iterator[Reject]:
    """Whom `curate` keeps out; a sample that stays written, `skipped`, is none of them."""
    for verdict in verdicts:
        if not verdict.keep and verdict.source_key not in skipped:
            code, message = verdict.code or "", verdict.message or ""
            yield Reject("curate", code, message, verdict.source_key, part=verdict.part)


def leak_rejects(leaks: Iterable[SplitLeak]) -> Iterator[Reject]:
    """Whom `shard_plan` leaves out since they would lie in two splits."""
    for leak in leaks:
        yield Reject(
            "shard_plan",
            "split_leak",
            f"its group {leak.group} has samples in {' and '.join(leak.splits)}, which stay there; "
            f"output.resplit with another split_seed deals all splits anew",
            leak.source_key,
            part=leak.part,
            sample_id=leak.sample_id,
        )


def rejects_before_encoding(layout: Layout, tables: Iterable[tuple[str, Path]]) -> Iterator[Reject]:
    """Whom the plan on disk does not hold, over (part, path) of the bucket tables it was made of:
    what `bucket` rejected, then `curate`, then `shard_plan` itself."""
    yield from bucket_rejects(tables)
    if layout.curate.exists():
        skipped = skipped_keys(layout.shard_plan)
        yield from curate_rejects(iter_verdicts(layout.curate), skipped=skipped)
    yield from leak_rejects(leaks_of(read_head(layout.shard_plan) or {}))


def write_rejects(path: Path, rejects: Iterable[Reject]) -> Counter[str]:
    """The view at `path`, replaced as a whole; returns how many by code."""
    counts: Counter[str] = Counter()
    with replace_file(path) as file, pq.ParquetWriter(file, SCHEMA, compression="zstd") as writer:
        for chunk in _chunks(rejects, 4096):
            counts.update(reject.code for reject in chunk)
            rows = [asdict(reject) for reject in chunk]
            writer.write_table(pa.Table.from_pylist(rows, schema=SCHEMA))
    return counts


def read_rejects(path: Path) -> Iterator[Reject]:
    """All rejects of the view, in its order; none when there is no view."""
    if not path.exists():
        return
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(4096):
            for row in batch.to_pylist():
                yield Reject(**row)


@dataclass(slots=True)
class RejectSummary:
    """Rejects by code: how many, and the first few of each."""

    counts: Counter[str] = field(default_factory=Counter)
    first: dict[str, list[Reject]] = field(default_factory=dict)


def summary_of(rejects: Iterable[Reject], *, named: int = 3) -> RejectSummary:
    """The counts by code, with the first `named` of each."""
    summary = RejectSummary()
    for reject in rejects:
        summary.counts[reject.code] += 1
        first = summary.first.setdefault(reject.code, [])
        if len(first) < named:
            first.append(reject)
    return summary


def _chunks(rejects: Iterable[Reject], size: int) -> Iterator[list[Reject]]:
    chunk: list[Reject] = []
    for reject in rejects:
        chunk.append(reject)
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk
