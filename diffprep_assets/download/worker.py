"""Looks at the source files of one part: sizes and times; fetches those of a remote source.

A local folder is not copied. With `keep_downloads: false` the bytes go once the dataset is
published; a stage that needs them later fetches them again, at the version that was listed.
"""

import os
import shutil
from collections.abc import Iterable
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
from diffprep_assets.source_index.catalog import SHARED
from diffprep_assets.source_index.table import SourceIndex
from diffprep_resources.compute.base import Report
from diffprep_resources.progress.base import SampleCounts
from diffprep_resources.sources.base import FileStamp, Source
from diffprep_resources.sources.names import inside
from diffprep_resources.sources.remote import RemoteSource

STAGE = "download"


@dataclass(frozen=True, slots=True)
class DownloadTask(PartitionTask):
    """A part's files as they are now."""

    stamps: tuple[FileStamp, ...]


@dataclass(frozen=True, slots=True)
class DownloadSpec:
    """All that a process needs to bring a part in. Unless `keep`, a part is finished without its
    bytes once they were there."""

    layout: Layout
    source: Source
    keep: bool = True

    def build(self) -> "DownloadWorker":
        return DownloadWorker(self)


class DownloadWorker(PartitionWorker):
    """Writes the stamps of a part."""

    def __init__(self, spec: DownloadSpec) -> None:
        self.spec = spec

    def lock(self, task: PartitionTask) -> Path:
        return self.spec.layout.partition_lock(STAGE, task.key)

    def finished(self, task: PartitionTask) -> PartitionResult | None:
        return finished_download(self.spec, task)

    def make(self, task: PartitionTask, report: Report) -> PartitionResult:
        if not isinstance(task, DownloadTask):
            raise TypeError(f"download needs a DownloadTask, got {type(task).__name__}")
        path = self.spec.layout.download(task.key)
        if isinstance(self.spec.source, RemoteSource):
            self.spec.source.bring(task.stamps, report=report)
            _remove_others(self.spec.layout.downloaded_files(task.key), task.stamps)
        else:
            report(task.num_samples)
        write_stamps(path, list(task.stamps), fingerprint=task.fingerprint)
        return _result(task, new=True)


def download_task(
    key: str, paths: list[str], *, source: Source, revision: str | None
) -> DownloadTask:
    """The part's files as they are now, and the fingerprint of that."""
    stamps = tuple(source.stamps(paths))
    return DownloadTask(key, len(stamps), stamps_fingerprint(stamps, revision=revision), stamps)


def finished_download(spec: DownloadSpec, task: PartitionTask) -> PartitionResult | None:
    """The result on disk, when the part's stamps are the task's and its bytes are where they should
    be."""
    if read_fingerprint(spec.layout.download(task.key)) != task.fingerprint:
        return None
    if spec.keep and isinstance(task, DownloadTask) and not spec.source.are_here(task.stamps):
        return None
    return _result(task, new=False)


def release_downloads(layout: Layout) -> None:
    """Remove all fetched bytes; their stamps stay."""
    folder = layout.download("x").parent
    if folder.is_dir():
        for path in folder.iterdir():
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)


def remove_gone(layout: Layout, index: SourceIndex) -> None:
    """Remove fetched bytes of parts that hold nothing any more."""
    folder = layout.download("x").parent
    kept = {*index.parts.parts, SHARED}
    if folder.is_dir():
        for path in folder.iterdir():
            if path.is_dir() and path.name not in kept:
                shutil.rmtree(path, ignore_errors=True)


def _remove_others(folder: Path, stamps: Iterable[FileStamp]) -> None:
    """Remove what a part's folder holds besides its files: deleted ones, broken transfers."""
    root = os.fsencode(folder)
    kept = {
        inside(root, path)
        for stamp in stamps
        for path in (stamp.path, stamp.caption_path)
        if path is not None
    }
    for parent, _, names in os.walk(root):
        for name in names:
            path = os.path.join(parent, name)
            if path not in kept:
                os.unlink(path)


def _result(task: PartitionTask, *, new: bool) -> PartitionResult:
    files = task.num_samples
    counts = SampleCounts(files, files, encoded=files if new else 0, reused=0 if new else files)
    size = sum(stamp.size for stamp in task.stamps) if isinstance(task, DownloadTask) else 0
    return PartitionResult(task.fingerprint, counts, size)
