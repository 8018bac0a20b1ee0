"""The samples that `bucket` kept, over all parts, in source order, each in its split group."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import xxhash

from diffprep_assets.bucket.table import BucketRow
from diffprep_assets.curate.table import Verdict
from diffprep_assets.layout import Layout
from diffprep_assets.shard_plan.plan import Bucket, Candidate, ClipPlan
from diffprep_assets.source_columns.table import column_types, read_columns
from diffprep_resources.storage.parquet_tables import has_table, readable_table

COLUMNS = [
    "source_key",
    "group",
    "code",
    "image_digest",
    "caption_digest",
    "tier",
    "width",
    "height",
    "crop_left",
    "crop_top",
    "crop_width",
    "crop_height",
]
# Those that a table from before there were clips has not.
CLIP_COLUMNS = ["num_frames", "wanted_pts"]


@dataclass(frozen=True, slots=True)
class CandidateFacts:
    """What stands elsewhere than in the bucket tables: verdicts by source key, and `columns`, the
    source's own columns that an output holds, in `layout`."""

    verdicts: Mapping[str, Verdict] = field(default_factory=dict)
    layout: Layout | None = None
    columns: tuple[str, ...] = ()

    def columns_digests(self, part: str) -> Mapping[str, str]:
        """The digest of each sample's values in those columns, by source key; none of a part whose
        columns were not read yet."""
        if self.layout is None or not self.columns:
            return {}
        path = self.layout.source_columns(part)
        if not has_table(path) or not column_types(path).keys() >= set(self.columns):
            return {}
        table = read_columns(path, *self.columns)
        return {row.pop("source_key"): _digest(row) for row in table.to_pylist()}


def kept_samples(
    tables: Iterable[tuple[str, Path]], facts: CandidateFacts | None = None
) -> Iterator[Candidate]:
    """Kept rows of the bucket tables, given as (part, path) in order of parts. Those that a verdict
    is against are among them."""
    facts = facts or CandidateFacts()
    for part, path in tables:
        digests = facts.columns_digests(part)
        with readable_table(path), pq.ParquetFile(path) as file:
            columns = [*COLUMNS, *(set(CLIP_COLUMNS) & set(file.schema_arrow.names))]
            for batch in file.iter_batches(4096, columns=columns):
                for row in batch.to_pylist():
                    if row["code"] is None:
                        yield _candidate(part, row, facts, digests)


def candidate_of(
    part: str,
    row: BucketRow,
    facts: CandidateFacts | None = None,
    digests: Mapping[str, str] | None = None,
) -> Candidate:
    """The sample of a row that `bucket` kept; `digests` are the part's `columns_digests`."""
    found = {name: getattr(row, name) for name in [*COLUMNS, *CLIP_COLUMNS]}
    return _candidate(part, found, facts or CandidateFacts(), digests or {})


def _candidate(
    part: str, row: dict[str, Any], facts: CandidateFacts, digests: Mapping[str, str]
) -> Candidate:
    key = row["source_key"]
    verdict = facts.verdicts.get(key)
    frames, pts = row.get("num_frames") or 0, row.get("wanted_pts")
    return Candidate(
        source_key=key,
        group=(verdict.group if verdict else None) or row["group"],
        part=part,
        image_digest=row["image_digest"],
        caption_digest=row["caption_digest"],
        bucket=Bucket(row["tier"], row["width"], row["height"], frames),
        crop=(row["crop_left"], row["crop_top"], row["crop_width"], row["crop_height"]),
        columns_digest=digests.get(key, ""),
        clip=None if pts is None else ClipPlan(tuple(pts)),
    )


def _digest(values: Mapping[str, Any]) -> str:
    text = json.dumps(values, sort_keys=True, default=str)
    return xxhash.xxh3_128_hexdigest(text.encode())
