"""The samples that `bucket` kept, over all parts, in source order."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from diffprep_assets.bucket.table import BucketRow
from diffprep_assets.shard_plan.plan import Bucket, Candidate
from diffprep_resources.storage.parquet_tables import readable_table

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


def kept_samples(tables: Iterable[tuple[str, Path]]) -> Iterator[Candidate]:
    """Kept rows of the bucket tables, given as (part, path) in order of parts."""
    for part, path in tables:
        with readable_table(path), pq.ParquetFile(path) as file:
            for batch in file.iter_batches(4096, columns=COLUMNS):
                for row in batch.to_pylist():
                    if row["code"] is None:
                        yield _candidate(part, row)


def candidate_of(part: str, row: BucketRow) -> Candidate:
    """The sample of a row that `bucket` kept."""
    return _candidate(part, {name: getattr(row, name) for name in COLUMNS})


def _candidate(part: str, row: dict[str, Any]) -> Candidate:
    return Candidate(
        source_key=row["source_key"],
        group=row["group"],
        part=part,
        image_digest=row["image_digest"],
        caption_digest=row["caption_digest"],
        bucket=Bucket(row["tier"], row["width"], row["height"]),
        crop=(row["crop_left"], row["crop_top"], row["crop_width"], row["crop_height"]),
    )
