"""Writes the bucket table of one part."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from diffprep_assets.bucket.scan import BucketRules, resized, scanned
from diffprep_assets.bucket.table import BucketRow, bucket_table, read_metadata, read_rows
from diffprep_assets.download.table import read_fingerprint, read_stamps
from diffprep_assets.freshness import fingerprint
from diffprep_assets.layout import Layout
from diffprep_assets.partition_worker import (
    PartitionResult,
    PartitionTask,
    PartitionWorker,
    reused_counts,
)
from diffprep_assets.recipe.stage_fields import SIZE_FIELDS
from diffprep_assets.stage_inputs import how_to_make
from diffprep_resources.compute.base import Report
from diffprep_resources.errors import StageInputError
from diffprep_resources.progress.base import SampleCounts
from diffprep_resources.sources.base import Source

STAGE = "bucket"


@dataclass(frozen=True, slots=True)
class BucketTask(PartitionTask):
    """A part to look through; `limit` is the number of pictures to take of it, None for all."""

    download_fingerprint: str
    limit: int | None


@dataclass(frozen=True, slots=True)
class BucketSpec:
    """All that a process needs to look through a part. `settings` is what is fingerprinted."""

    layout: Layout
    source: Source
    rules: BucketRules
    settings: dict[str, Any]

    def build(self) -> "BucketWorker":
        return BucketWorker(self)


class BucketWorker(PartitionWorker):
    """Opens pictures; needs no device."""

    def __init__(self, spec: BucketSpec) -> None:
        self.spec = spec

    def lock(self, task: PartitionTask) -> Path:
        return self.spec.layout.partition_lock(STAGE, task.key)

    def finished(self, task: PartitionTask) -> PartitionResult | None:
        return finished_bucket(self.spec.layout, task)

    def make(self, task: PartitionTask, report: Report) -> PartitionResult:
        if not isinstance(task, BucketTask):
            raise TypeError(f"bucket needs a BucketTask, got {type(task).__name__}")
        layout = self.spec.layout
        if read_fingerprint(layout.download(task.key)) != task.download_fingerprint:
            how = how_to_make(layout.dataset, "download", f" --partition {task.key}")
            raise StageInputError(f"part {task.key}: download is missing; run {how}")
        metadata = {
            "fingerprint": task.fingerprint,
            "settings": self.spec.settings,
            "limit": task.limit,
            "retries": self._retries(task),
            "other_members": self._other_members(task),
        }
        read = total = 0
        rejects: Counter[str] = Counter()
        with bucket_table(layout.bucket(task.key), metadata=metadata) as table:
            for rows, was_read in self._limited(task):
                table.add(rows)
                read += len(rows) if was_read else 0
                total += len(rows)
                codes = [row.code for row in rows if row.code is not None]
                rejects.update(codes)
                report(len(rows), len(codes))
        kept = total - sum(rejects.values())
        counts = SampleCounts(total, kept, encoded=read, reused=total - read, rejects=rejects)
        size = layout.bucket(task.key).stat().st_size
        return PartitionResult(task.fingerprint, counts, size)

    def _other_members(self, task: BucketTask) -> dict[str, int]:
        """What the part's files hold besides pictures and their captions, counted by kind."""
        counts: Counter[str] = Counter()
        for stamp in read_stamps(self.spec.layout.download(task.key)):
            counts.update(self.spec.source.other_members(stamp.path))
        return dict(sorted(counts.items()))

    def _limited(self, task: BucketTask) -> Iterator[tuple[Sequence[BucketRow], bool]]:
        """Rows of each picture, up to the limit."""
        pictures = scanned(
            read_stamps(self.spec.layout.download(task.key)),
            source=self.spec.source,
            rules=self.spec.rules,
            known=self._known(task),
        )
        for number, picture in enumerate(pictures):
            if task.limit is not None and number >= task.limit:
                return
            yield picture

    def _known(self, task: BucketTask) -> dict[str, list[BucketRow]]:
        """Rows of the old table by file, when these rules made them; where only the size settings
        differ, with the targets of the new ones. To retry, those of a file with a transient reject
        are not known."""
        known = known_rows(
            self.spec.layout.bucket(task.key),
            settings=self.spec.settings,
            limit=task.limit,
            rules=self.spec.rules,
        )
        if not task.retry_rejects:
            return known
        return {
            path: rows for path, rows in known.items() if not any(row.transient for row in rows)
        }

    def _retries(self, task: BucketTask) -> int:
        """How often rejects of this very table were tried again: its fingerprint does not tell."""
        metadata = read_metadata(self.spec.layout.bucket(task.key))
        if metadata is None or metadata["fingerprint"] != task.fingerprint:
            return 0
        return metadata.get("retries", 0) + 1


def known_rows(
    path: Path, *, settings: Mapping[str, Any], limit: int | None, rules: BucketRules
) -> dict[str, list[BucketRow]]:
    """Rows of a bucket table by file, as far as other settings and another limit let them stand."""
    metadata = read_metadata(path)
    if metadata is None or metadata["limit"] != limit:
        return {}
    before = metadata["settings"]
    if _but_sizes(before) != _but_sizes(settings):
        return {}
    files = groupby(read_rows(path), key=lambda row: row.path)
    if before == settings:
        return {file: list(rows) for file, rows in files}
    now = ((file, resized(list(rows), rules)) for file, rows in files)
    return {file: rows for file, rows in now if rows is not None}


def _but_sizes(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name not in SIZE_FIELDS}


def bucket_task(
    layout: Layout,
    key: str,
    *,
    settings: dict[str, Any],
    limit: int | None,
    retry_rejects: bool = False,
) -> BucketTask | None:
    """The part to look through; None when its `download` is missing."""
    stamped = read_fingerprint(layout.download(key))
    if stamped is None:
        return None
    with pq.ParquetFile(layout.download(key)) as file:
        num_files = file.metadata.num_rows
    return BucketTask(
        key=key,
        num_samples=num_files,
        fingerprint=bucket_fingerprint(settings, stamped, limit),
        download_fingerprint=stamped,
        limit=limit,
        retry_rejects=retry_rejects,
    )


def bucket_version(path: Path) -> str | None:
    """What changes when a whole table's rows may have: its fingerprint, and a count of retries."""
    metadata = read_metadata(path)
    if metadata is None:
        return None
    retries = metadata.get("retries", 0)
    return f"{metadata['fingerprint']}.{retries}" if retries else metadata["fingerprint"]


def bucket_fingerprint(settings: Mapping[str, Any], download: str, limit: int | None) -> str:
    """The fingerprint of a part's table over files that `download` saw with this fingerprint."""
    inputs = {"download": download, "limit": None if limit is None else str(limit)}
    return fingerprint(STAGE, settings=settings, inputs=inputs)


def finished_bucket(layout: Layout, task: PartitionTask) -> PartitionResult | None:
    """The result on disk, when the part's table carries the task's fingerprint."""
    path = layout.bucket(task.key)
    metadata = read_metadata(path)
    if metadata is None or metadata["fingerprint"] != task.fingerprint:
        return None
    if task.retry_rejects and _has_transient(path):
        return None
    codes = pq.read_table(path, columns=["code"]).column("code")
    rejected = [code for code in codes.to_pylist() if code is not None]
    counts = reused_counts(len(codes), rejected)
    return PartitionResult(task.fingerprint, counts, path.stat().st_size)


def _has_transient(path: Path) -> bool:
    column = pq.read_table(path, columns=["transient"]).column("transient")
    return any(column.to_pylist())
