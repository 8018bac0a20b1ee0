"""The verdicts of `curate`: one row per sample that is left out, or whose split group is another
than its own picture."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

from diffprep_resources.storage.atomic import replace_file
from diffprep_resources.storage.parquet_tables import readable_table, table_head

SCHEMA = pa.schema(
    [
        pa.field("source_key", pa.string(), nullable=False),
        pa.field("part", pa.string(), nullable=False),
        pa.field("keep", pa.bool_(), nullable=False),
        pa.field("code", pa.string()),
        pa.field("message", pa.string()),
        pa.field("rule", pa.string()),
        pa.field("group", pa.string()),
    ]
)
_ROWS = 4096


@dataclass(frozen=True, slots=True)
class Verdict:
    """What curation says of a sample. `code`, `message` and `rule` are None for one that stays,
    `group` where the bucket row's own holds."""

    source_key: str
    part: str
    keep: bool
    code: str | None = None
    message: str | None = None
    rule: str | None = None
    group: str | None = None


@dataclass(slots=True)
class VerdictCounts:
    """Samples left out, by code and by rule, and the digest of all verdicts."""

    digest: str = ""
    codes: Counter[str] = field(default_factory=Counter)
    rules: Counter[str] = field(default_factory=Counter)


def write_verdicts(
    path: Path, rows: Iterable[Verdict], *, metadata: Mapping[str, Any]
) -> VerdictCounts:
    """The verdicts at `path`, in the order given, replaced as a whole. The head holds `metadata`,
    and the counts that come back, by their names."""
    counts = VerdictCounts()
    digest = xxhash.xxh3_128()
    rows = iter(rows)
    # A stored schema would hide metadata that are known only at the end.
    options = {"compression": "zstd", "store_schema": False}
    with replace_file(path) as file, pq.ParquetWriter(file, SCHEMA, **options) as writer:
        while chunk := list(islice(rows, _ROWS)):
            counts.codes.update(row.code for row in chunk if row.code is not None)
            counts.rules.update(row.rule for row in chunk if row.rule is not None)
            values = [asdict(row) for row in chunk]
            digest.update(json.dumps([list(row.values()) for row in values]).encode())
            writer.write_table(pa.Table.from_pylist(values, schema=SCHEMA))
        counts.digest = digest.hexdigest()
        head = {
            **metadata,
            "digest": counts.digest,
            "codes": dict(counts.codes),
            "rules": dict(counts.rules),
        }
        writer.add_key_value_metadata({"diffprep": json.dumps(head, sort_keys=True)})
    return counts


def read_head(path: Path) -> dict[str, Any] | None:
    """Fingerprint, settings, digest and counts of a whole table; None when there is none."""
    return table_head(path)


def iter_verdicts(path: Path) -> Iterator[Verdict]:
    """The verdicts in source order, some thousand in memory at a time."""
    with readable_table(path), pq.ParquetFile(path) as file:
        for batch in file.iter_batches(_ROWS):
            for row in batch.to_pylist():
                yield Verdict(**row)


def read_verdicts(path: Path) -> dict[str, Verdict]:
    """Every verdict by source key."""
    return {verdict.source_key: verdict for verdict in iter_verdicts(path)}
