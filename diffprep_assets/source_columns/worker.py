"""Writes the table of one part's source fields."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

from diffprep_assets.bucket.scan import stamp_digest
from diffprep_assets.bucket.worker import bucket_version
from diffprep_assets.download.table import read_stamps
from diffprep_assets.freshness import digest_of, fingerprint
from diffprep_assets.layout import Layout
from diffprep_assets.partition_worker import (
    PartitionResult,
    PartitionTask,
    PartitionWorker,
    reused_counts,
)
from diffprep_assets.source_columns.table import (
    OWN,
    FieldRow,
    read_field_rows,
    read_head,
    write_columns,
)
from diffprep_assets.source_columns.values import Plain, plain
from diffprep_assets.stage_inputs import how_to_make
from diffprep_resources.compute.base import Report
from diffprep_resources.errors import SettingError, SourceChangedError, StageInputError
from diffprep_resources.progress.base import SampleCounts
from diffprep_resources.sources.base import FileStamp, Source
from diffprep_resources.storage.parquet_tables import readable_table

STAGE = "source_columns"
MAX_NAMES = 200


@dataclass(frozen=True, slots=True)
class ColumnsTask(PartitionTask):
    """A part to read, over the bucket table of this version. `num_samples` counts its rows."""

    bucket: str


@dataclass(frozen=True, slots=True)
class ColumnsSpec:
    """All that a process needs to read a part's fields. `settings` is what is fingerprinted."""

    layout: Layout
    source: Source
    settings: dict[str, Any]

    def build(self) -> "ColumnsWorker":
        return ColumnsWorker(self)


class ColumnsWorker(PartitionWorker):
    """Reads JSON, CSV and parquet columns; opens no picture."""

    def __init__(self, spec: ColumnsSpec) -> None:
        self.spec = spec

    def lock(self, task: PartitionTask) -> Path:
        return self.spec.layout.partition_lock(STAGE, task.key)

    def finished(self, task: PartitionTask) -> PartitionResult | None:
        return finished_columns(self.spec.layout, task)

    def make(self, task: PartitionTask, report: Report) -> PartitionResult:
        if not isinstance(task, ColumnsTask):
            raise TypeError(f"source_columns needs a ColumnsTask, got {type(task).__name__}")
        layout, path = self.spec.layout, self.spec.layout.source_columns(task.key)
        if bucket_version(layout.bucket(task.key)) != task.bucket:
            how = how_to_make(layout.dataset, "bucket", f" --partition {task.key}")
            raise StageInputError(f"part {task.key}: bucket is missing or changed; run {how}")
        names: list[str] = self.spec.settings["columns"]
        stamps = list(field_stamps(layout, task.key, source=self.spec.source))
        known = self._known(path, names)
        rows, reused = self._rows(task.key, stamps, known)
        metadata = {
            "fingerprint": task.fingerprint,
            "settings": self.spec.settings,
            "bucket": task.bucket,
            "known_names": sorted(self.spec.source.field_names(stamps))[:MAX_NAMES],
        }
        write_columns(path, rows, names=names, metadata=metadata)
        report(task.num_samples)
        counts = SampleCounts(len(rows), len(rows), encoded=len(rows) - reused, reused=reused)
        return PartitionResult(task.fingerprint, counts, path.stat().st_size)

    def _known(self, path: Path, names: list[str]) -> dict[str, FieldRow]:
        """The rows of the old table by source key, when it was made for the same names."""
        head = read_head(path)
        if head is None or head["settings"] != self.spec.settings:
            return {}
        return {row.source_key: row for row in read_field_rows(path)}

    def _rows(
        self, part: str, stamps: list[FileStamp], known: Mapping[str, FieldRow]
    ) -> tuple[list[FieldRow], int]:
        """The rows of the part, and how many were taken over."""
        digests = {stamp.path: stamp_digest(stamp) for stamp in stamps}
        samples = list(kept_samples(self.spec.layout.bucket(part)))
        stale = {
            path
            for key, _, path in samples
            if key not in known or known[key].stamp != digests.get(path)
        }
        found = self._read([stamp for stamp in stamps if stamp.path in stale])
        rows: list[FieldRow] = []
        for key, group, path in samples:
            if path not in stale:
                rows.append(known[key])
            elif group in found:
                rows.append(FieldRow(key, digests[path], found[group]))
            else:
                raise SourceChangedError(
                    f"source changed since bucket: {group}; run download and bucket again, as "
                    "`diffprep run` does"
                )
        return rows, sum(path not in stale for _, _, path in samples)

    def _read(self, stamps: list[FileStamp]) -> dict[str, tuple[Plain, ...]]:
        """Values by the picture's key."""
        names = self.spec.settings["columns"]
        return {
            sample.source_key: tuple(map(plain, sample.values))
            for sample in self.spec.source.fields(stamps, names)
        }


def kept_samples(path: Path) -> Iterator[tuple[str, str, str]]:
    """source_key, group and source file of every kept row of a bucket table."""
    columns = ["source_key", "group", "path"]
    with readable_table(path):
        table = pq.read_table(path, columns=columns, filters=pc.field("code").is_null())
    return zip(*(table.column(name).to_pylist() for name in columns), strict=True)


def field_stamps(layout: Layout, part: str, *, source: Source) -> Iterator[FileStamp]:
    """The part's files as `download` saw them, each with the file that holds its fields."""
    return source.field_stamps(read_stamps(layout.download(part)))


def columns_task(
    layout: Layout, key: str, *, source: Source, settings: dict[str, Any]
) -> ColumnsTask | None:
    """The part to read; None when its bucket table is missing. Raises SettingError for a field that
    is named like a column of ours."""
    if OWN.names[0] in settings["columns"]:
        raise SettingError(
            f"curate and mds cannot read a field of the source that is named {OWN.names[0]}: it "
            "would stand for diffprep's own; rename it in the source"
        )
    version = bucket_version(layout.bucket(key))
    if version is None:
        return None
    with pq.ParquetFile(layout.bucket(key)) as file:
        num_rows = file.metadata.num_rows
    fields = digest_of([stamp_digest(stamp) for stamp in field_stamps(layout, key, source=source)])
    inputs = {"bucket": version, "fields": fields}
    return ColumnsTask(key, num_rows, fingerprint(STAGE, settings=settings, inputs=inputs), version)


def columns_are_of(layout: Layout, key: str, *, settings: dict[str, Any]) -> bool:
    """Whether a part's table holds these columns of the samples that its bucket table has now. As
    to the files of the fields, it is the stage's own to look at them again."""
    head = read_head(layout.source_columns(key))
    version = bucket_version(layout.bucket(key))
    return head is not None and (head["settings"], head["bucket"]) == (settings, version)


def finished_columns(layout: Layout, task: PartitionTask) -> PartitionResult | None:
    """The result on disk, when the part's table carries the task's fingerprint."""
    path = layout.source_columns(task.key)
    head = read_head(path)
    if head is None or head["fingerprint"] != task.fingerprint:
        return None
    with readable_table(path), pq.ParquetFile(path) as file:
        num_rows = file.metadata.num_rows
    return PartitionResult(task.fingerprint, reused_counts(num_rows, []), path.stat().st_size)
