"""Writes the perceptual hashes of one part's kept pictures."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import xxhash

from diffprep_assets.bucket.worker import bucket_version
from diffprep_assets.freshness import fingerprint
from diffprep_assets.layout import Layout
from diffprep_assets.partition_worker import (
    PartitionResult,
    PartitionTask,
    PartitionWorker,
    reused_counts,
)
from diffprep_assets.picture_hash.table import hash_table, read_hashes, read_head
from diffprep_assets.stage_inputs import how_to_make
from diffprep_resources.compute.base import Report
from diffprep_resources.errors import (
    DiffprepError,
    SampleReject,
    SourceChangedError,
    StageInputError,
)
from diffprep_resources.pictures.opening import PictureLimits
from diffprep_resources.pictures.phash import perceptual_hash
from diffprep_resources.progress.base import SampleCounts
from diffprep_resources.sources.base import Location, Source
from diffprep_resources.storage.parquet_tables import readable_table

STAGE = "picture_hash"
COLUMNS = ["group", "code", "image_digest", "path", "offset", "length", "row"]


@dataclass(frozen=True, slots=True)
class HashTask(PartitionTask):
    """A part to hash, over the bucket table of this version. `num_samples` counts its rows."""

    bucket: str


@dataclass(frozen=True, slots=True)
class HashSpec:
    """All that a process needs to hash pictures. `settings` is what the fingerprint covers."""

    layout: Layout
    source: Source
    settings: dict[str, Any]
    limits: PictureLimits
    background: str

    def build(self) -> "HashWorker":
        return HashWorker(self)


@dataclass(frozen=True, slots=True)
class KeptPicture:
    """One picture that `bucket` kept, and where its bytes are."""

    group: str
    image_digest: str
    location: Location


class HashWorker(PartitionWorker):
    """Decodes pictures; needs no device."""

    def __init__(self, spec: HashSpec) -> None:
        self.spec = spec

    def lock(self, task: PartitionTask) -> Path:
        return self.spec.layout.partition_lock(STAGE, task.key)

    def finished(self, task: PartitionTask) -> PartitionResult | None:
        return finished_hashes(self.spec.layout, task)

    def make(self, task: PartitionTask, report: Report) -> PartitionResult:
        if not isinstance(task, HashTask):
            raise TypeError(f"picture_hash needs a HashTask, got {type(task).__name__}")
        layout, path = self.spec.layout, self.spec.layout.picture_hash(task.key)
        if bucket_version(layout.bucket(task.key)) != task.bucket:
            how = how_to_make(layout.dataset, "bucket", f" --partition {task.key}")
            raise StageInputError(f"part {task.key}: bucket is missing or changed; run {how}")
        known = known_hashes(path, settings=self.spec.settings)
        metadata = {"fingerprint": task.fingerprint, "settings": self.spec.settings}
        total = hashed = without = 0
        with hash_table(path, metadata=metadata) as table:
            for picture in kept_pictures(layout.bucket(task.key)):
                if picture.image_digest not in known:
                    known[picture.image_digest] = self._hash(picture)
                    hashed += 1
                value = known[picture.image_digest]
                table.add(picture.group, picture.image_digest, value)
                without += value is None
                total += 1
                report(1)
        report(max(0, task.num_samples - total))
        counts = SampleCounts(total, total, encoded=hashed, reused=total - hashed)
        facts = {"without_hash": without}
        return PartitionResult(task.fingerprint, counts, path.stat().st_size, facts)

    def _hash(self, picture: KeptPicture) -> int | None:
        """The hash; None for a flat picture, and for one whose pixels cannot be decoded: that is
        for the encoder to reject. Raises SourceChangedError, and DiffprepError for a passing
        cause, such as memory."""
        spec, data = self.spec, self.spec.source.read_image(picture.location)
        if xxhash.xxh3_128_hexdigest(data) != picture.image_digest:
            raise SourceChangedError(
                f"source changed since bucket: {picture.group}; run download and bucket again, as "
                "`diffprep run` does"
            )
        try:
            return perceptual_hash(data, limits=spec.limits, background=spec.background)
        except SampleReject as reject:
            if reject.transient:
                raise DiffprepError(f"{picture.group}: {reject.message}; run again") from reject
            return None


def kept_pictures(path: Path) -> Iterator[KeptPicture]:
    """Each picture of a bucket table that was kept, once however many captions it has."""
    last = None
    with readable_table(path), pq.ParquetFile(path) as file:
        for batch in file.iter_batches(1024, columns=COLUMNS):
            for row in batch.to_pylist():
                if row["code"] is not None or row["group"] == last:
                    continue
                last = row["group"]
                location = Location(row["path"], row["offset"], row["length"], row["row"])
                yield KeptPicture(last, row["image_digest"], location)


def known_hashes(path: Path, *, settings: dict[str, Any]) -> dict[str, int | None]:
    """Hashes of an old table by image_digest, where the same settings made it."""
    head = read_head(path)
    if head is None or head["settings"] != settings:
        return {}
    table = read_hashes(path)
    digests, hashes = (table.column(name).to_pylist() for name in ("image_digest", "hash"))
    return dict(zip(digests, hashes, strict=True))


def hash_task(layout: Layout, key: str, *, settings: dict[str, Any]) -> HashTask | None:
    """The part to hash; None when its `bucket` is missing."""
    bucket = bucket_version(layout.bucket(key))
    if bucket is None:
        return None
    with pq.ParquetFile(layout.bucket(key)) as file:
        num_rows = file.metadata.num_rows
    made = fingerprint(STAGE, settings=settings, inputs={"bucket": bucket})
    return HashTask(key, num_rows, made, bucket)


def finished_hashes(layout: Layout, task: PartitionTask) -> PartitionResult | None:
    """The result on disk, when the part's table carries the task's fingerprint."""
    path = layout.picture_hash(task.key)
    head = read_head(path)
    if head is None or head["fingerprint"] != task.fingerprint:
        return None
    hashes = read_hashes(path).column("hash")
    counts, facts = reused_counts(len(hashes), ()), {"without_hash": hashes.null_count}
    return PartitionResult(task.fingerprint, counts, path.stat().st_size, facts)
