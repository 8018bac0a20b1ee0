"""Looks at the source files of one part: sizes and times. A local folder is not copied."""

from dataclasses import dataclass
from pathlib import Path

from diffprep_assets.download.table import (
    read_fingerprint,
    stamps_fingerprint,
    write_stamps,
)
from diffprep_assets.layout import Layout
from diffprep_assets.partition_worker import (
    PartitionResult,
    PartitionTask,
    PartitionWorker,
)
from diffprep_resources.compute.base import Report
from diffprep_resources.progress.base import SampleCounts
from diffprep_resources.sources.base import FileStamp, Source

STAGE = "download"


@dataclass(frozen=True, slots=True)
class DownloadTask(PartitionTask):
    """A part's files as they are now."""

    stamps: tuple[FileStamp, ...]


@dataclass(frozen=True, slots=True)
class DownloadSpec:
    """All that a process needs to bring a part in."""

    layout: Layout

    def build(self) -> "DownloadWorker":
        return DownloadWorker(self)


class DownloadWorker(PartitionWorker):
    """Writes the stamps of a part."""

    def __init__(self, spec: DownloadSpec) -> None:
        self.spec = spec

    def lock(self, task: PartitionTask) -> Path:
        return self.spec.layout.partition_lock(STAGE, task.key)

    def finished(self, task: PartitionTask) -> PartitionResult | None:
        return finished_download(self.spec.layout, task)

    def make(self, task: PartitionTask, report: Report) -> PartitionResult:
        if not isinstance(task, DownloadTask):
            raise TypeError(f"download needs a DownloadTask, got {type(task).__name__}")
        path = self.spec.layout.download(task.key)
        write_stamps(path, list(task.stamps), fingerprint=task.fingerprint)
        report(task.num_samples)
        return _result(task, new=True)


def download_task(
    key: str, paths: list[str], *, source: Source, revision: str | None
) -> DownloadTask:
    """The part's files as they are now, and the fingerprint of that."""
    stamps = tuple(source.stamps(paths))
    return DownloadTask(key, len(stamps), stamps_fingerprint(stamps, revision=revision), stamps)


def finished_download(layout: Layout, task: PartitionTask) -> PartitionResult | None:
    """The result on disk, when the part's stamps are the task's."""
    if read_fingerprint(layout.download(task.key)) != task.fingerprint:
        return None
    return _result(task, new=False)


def _result(task: PartitionTask, *, new: bool) -> PartitionResult:
    files = task.num_samples
    counts = SampleCounts(files, files, encoded=files if new else 0, reused=0 if new else files)
    size = sum(stamp.size for stamp in task.stamps) if isinstance(task, DownloadTask) else 0
    return PartitionResult(task.fingerprint, counts, size)
