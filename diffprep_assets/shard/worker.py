"""Writes the tar of one shard from its latents and its text."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diffprep_assets.dataset import Dataset
from diffprep_assets.layout import Layout
from diffprep_assets.partition_worker import (
    PartitionResult,
    PartitionTask,
    PartitionWorker,
    reused_counts,
)
from diffprep_assets.shard.members import SampleMetadata, sample_members
from diffprep_assets.shard.record import (
    SampleRow,
    ShardRecord,
    ShardReject,
    read_record,
    write_record,
    write_samples,
)
from diffprep_assets.shard.tar_writer import TarRow, TarSample, TarSummary, TarWriter
from diffprep_assets.shard_plan.members import Member, members_of_shard
from diffprep_assets.shard_plan.plan import PlannedShard
from diffprep_resources.compute.base import Report
from diffprep_resources.errors import StageInputError
from diffprep_resources.storage.atomic import replace_file
from diffprep_resources.storage.row_file import RowFileHeader, read_header, row_reader

if TYPE_CHECKING:
    import torch

STAGE = "shard"


@dataclass(frozen=True, slots=True)
class ShardTask(PartitionTask):
    """A shard to write, and the fingerprints that its latents and text must carry."""

    planned: PlannedShard
    latents_fingerprint: str
    text_fingerprint: str


@dataclass(frozen=True, slots=True)
class ShardSpec:
    """All that a process needs to write tars. `settings` are kept for people who compare."""

    layout: Layout
    settings: dict[str, Any]

    def build(self) -> "ShardWorker":
        return ShardWorker(self)


class ShardWorker(PartitionWorker):
    """Writes tars; needs no device."""

    def __init__(self, spec: ShardSpec) -> None:
        self.spec = spec

    def lock(self, task: PartitionTask) -> Path:
        return self.spec.layout.partition_lock(STAGE, task.key)

    def finished(self, task: PartitionTask) -> PartitionResult | None:
        return finished_tar(self.spec.layout, task)

    def make(self, task: PartitionTask, report: Report) -> PartitionResult:
        if not isinstance(task, ShardTask):
            raise TypeError(f"shard needs a ShardTask, got {type(task).__name__}")
        layout = self.spec.layout
        latents = _input(layout, task, "encode_latents")
        text = _input(layout, task, "encode_text")
        members = members_of_shard(layout, task.key)
        rejects = {reject["sample_id"]: reject for reject in [*text.rejects, *latents.rejects]}
        # The record makes the shard whole: without it first, a half-replaced one is no shard.
        layout.shard_record(task.key).unlink(missing_ok=True)
        with (
            row_reader(layout.latents(task.key)) as latents_rows,
            row_reader(layout.text(task.key)) as text_rows,
            replace_file(layout.shard_tar(task.key)) as file,
        ):
            tar = TarWriter(file)
            rows = []
            for at, member in enumerate(members):
                report(1)
                if member.planned.sample_id not in rejects:
                    tensors = {**latents_rows.row(at), **text_rows.row(at)}
                    row = tar.add(_tar_sample(member, tensors))
                    made_from = (
                        latents.metadata["fingerprints"][at],
                        text.metadata["fingerprints"][at],
                    )
                    rows.append(_sample_row(member, row, made_from))
            summary = tar.close()
        write_samples(layout.shard_samples(task.key), rows)
        record = self._record(task, summary, len(rows), rejects)
        write_record(layout.shard_record(task.key), record)
        layout.shard_bad(task.key).unlink(missing_ok=True)
        return _result(record, task, encoded=len(rows))

    def _record(
        self,
        task: ShardTask,
        summary: TarSummary,
        num_samples: int,
        rejects: dict[int, dict[str, Any]],
    ) -> ShardRecord:
        bucket = task.planned.bucket
        return ShardRecord(
            shard=task.key,
            fingerprint=task.fingerprint,
            tier=bucket.tier,
            width=bucket.width,
            height=bucket.height,
            number=task.planned.number,
            num_samples=num_samples,
            size_bytes=summary.size_bytes,
            end_offset=summary.end_offset,
            digest=summary.digest,
            inputs={
                "encode_latents": task.latents_fingerprint,
                "encode_text": task.text_fingerprint,
                "shard_members": task.planned.members_digest,
            },
            settings=self.spec.settings,
            rejects=tuple(ShardReject(**rejects[sample_id]) for sample_id in sorted(rejects)),
        )


def finished_tar(layout: Layout, task: PartitionTask) -> PartitionResult | None:
    """The result on disk, when a whole tar carries the task's fingerprint."""
    record = read_record(layout.shard_record(task.key))
    if record is None or record.fingerprint != task.fingerprint:
        return None
    tar = layout.shard_tar(task.key)
    if not tar.exists() or tar.stat().st_size != record.size_bytes:
        return None
    if not layout.shard_samples(task.key).exists() or layout.shard_bad(task.key).exists():
        return None
    return _result(record, task, encoded=0)


def shard_task(dataset: Dataset, shard: PlannedShard) -> ShardTask:
    """What it takes to write this shard of the plan."""
    return ShardTask(
        key=shard.shard,
        num_samples=shard.num_samples,
        fingerprint=dataset.shard_fingerprint(shard),
        planned=shard,
        latents_fingerprint=dataset.latents_fingerprint(shard),
        text_fingerprint=dataset.text_fingerprint(shard),
    )


def _input(layout: Layout, task: ShardTask, stage: str) -> RowFileHeader:
    """The header of the shard's latents or text, which must be there and fresh."""
    if stage == "encode_latents":
        path, fingerprint = layout.latents(task.key), task.latents_fingerprint
    else:
        path, fingerprint = layout.text(task.key), task.text_fingerprint
    header = read_header(path)
    if header is not None and header.metadata["fingerprint"] == fingerprint:
        return header
    state = "missing" if header is None else "stale"
    raise StageInputError(
        f"shard {task.key}: {stage} is {state}; run `diffprep run {layout.dataset}`, or `dagster "
        f"asset materialize --select {layout.dataset}/{stage} --partition {task.key}`"
    )


def _tar_sample(member: Member, tensors: "dict[str, torch.Tensor]") -> TarSample:
    sample = member.planned.sample
    left, top, width, height = sample.crop
    metadata = SampleMetadata(
        source_key=sample.source_key,
        original_width=member.original_width,
        original_height=member.original_height,
        width=sample.bucket.width,
        height=sample.bucket.height,
        crop_left=left,
        crop_top=top,
        crop_width=width,
        crop_height=height,
        image_digest=sample.image_digest,
        caption_digest=sample.caption_digest,
    )
    members = sample_members(tensors, caption=member.caption, metadata=metadata)
    return TarSample(f"{member.planned.sample_id:010d}", members)


def _sample_row(member: Member, row: TarRow, made_from: tuple[str, str]) -> SampleRow:
    return SampleRow(
        sample_id=member.planned.sample_id,
        key=row.key,
        offset=row.offset,
        size=row.size,
        digest=row.digest,
        latents_fingerprint=made_from[0],
        text_fingerprint=made_from[1],
        parts=row.parts,
    )


def _result(record: ShardRecord, task: PartitionTask, *, encoded: int) -> PartitionResult:
    counts = reused_counts(task.num_samples, [reject.code for reject in record.rejects])
    if encoded:
        counts = replace(counts, encoded=encoded, reused=0)
    return PartitionResult(task.fingerprint, counts, record.size_bytes)
