"""What a finished shard says of itself, in whichever format: its record, and what it came to."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from diffprep_assets.encoded_rows import whole_record
from diffprep_assets.layout import Layout
from diffprep_assets.partition_worker import PartitionResult, PartitionTask, reused_counts
from diffprep_assets.shard.record import SampleRow, ShardRecord, ShardReject
from diffprep_assets.shard.tar_writer import TarRow, TarSummary
from diffprep_assets.shard_plan.plan import PlannedSample, PlannedShard
from diffprep_resources.progress.base import SampleCounts


def finished_shard(layout: Layout, task: PartitionTask) -> PartitionResult | None:
    """The result on disk, when a whole shard of the layout's format carries the task's
    fingerprint."""
    record = whole_record(layout, task.key)
    if record is None or record.fingerprint != task.fingerprint:
        return None
    if layout.shard_bad(task.key).exists():
        return None
    if task.retry_rejects and any(reject.transient for reject in record.rejects):
        return None
    counts = reused_counts(task.num_samples, [reject.code for reject in record.rejects])
    return PartitionResult(task.fingerprint, counts, record.size_bytes)


def made_shard(record: ShardRecord, task: PartitionTask, *, made: int) -> PartitionResult:
    """The result of a shard just written: `made` of its samples anew, the others taken over."""
    counts = SampleCounts(
        samples_in=task.num_samples,
        samples_out=record.num_samples,
        encoded=made,
        reused=record.num_samples - made,
        rejects=Counter(reject.code for reject in record.rejects),
    )
    return PartitionResult(task.fingerprint, counts, record.size_bytes)


@dataclass(frozen=True, slots=True)
class MadeOf:
    """What a shard was made from: fingerprints by stage, settings by stage, facts for people."""

    inputs: Mapping[str, str]
    settings: Mapping[str, Any]
    facts: Mapping[str, Any] = field(default_factory=dict)


def new_record(
    planned: PlannedShard,
    summary: TarSummary,
    *,
    fingerprint: str,
    num_samples: int,
    rejects: Sequence[ShardReject],
    made_of: MadeOf,
) -> ShardRecord:
    """The record of a shard just written."""
    bucket = planned.bucket
    return ShardRecord(
        shard=planned.shard,
        fingerprint=fingerprint,
        tier=bucket.tier,
        width=bucket.width,
        height=bucket.height,
        frames=bucket.frames,
        number=planned.number,
        num_samples=num_samples,
        size_bytes=summary.size_bytes,
        end_offset=summary.end_offset,
        digest=summary.digest,
        rejects=tuple(rejects),
        inputs=made_of.inputs,
        settings=made_of.settings,
        facts=made_of.facts,
    )


def new_row(
    planned: PlannedSample,
    row: TarRow,
    *,
    picture: str,
    caption: str,
    first_frame: str = "",
    clip: str = "",
) -> SampleRow:
    """The row of a sample just written, with the fingerprints of what it was made from."""
    return SampleRow(
        sample_id=planned.sample_id,
        key=row.key,
        offset=row.offset,
        size=row.size,
        digest=row.digest,
        latents_fingerprint=picture,
        text_fingerprint=caption,
        parts=row.parts,
        first_frame_fingerprint=first_frame,
        clip_fingerprint=clip,
    )


def clip_row(planned: PlannedSample, row: TarRow, made_of: Mapping[str, str]) -> SampleRow:
    """The row of a clip just written; `made_of` gives the fingerprints by encode stage."""
    return new_row(
        planned,
        row,
        picture=made_of["encode_latents"],
        caption=made_of["encode_text"],
        first_frame=made_of.get("encode_first_frame", ""),
        clip=made_of.get("encode_clip", ""),
    )


def reject_of(planned: PlannedSample, reject: Mapping[str, Any]) -> ShardReject:
    """The reject under the sample's present id and key, which may have been another's once."""
    identity = {"sample_id": planned.sample_id, "source_key": planned.sample.source_key}
    return ShardReject(**{**reject, **identity})
