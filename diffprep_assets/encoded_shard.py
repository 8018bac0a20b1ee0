"""What a file of encoded rows says of itself: which samples, made from what, and who is missing."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from diffprep_assets.encoded_rows import encoded_rows, row_path, whole_record
from diffprep_assets.freshness import FORMAT_VERSIONS, digest_of
from diffprep_assets.layout import Layout
from diffprep_assets.partition_worker import (
    LOCK_WAIT_S,
    PartitionResult,
    PartitionTask,
    reused_counts,
)
from diffprep_assets.shard.commit import finish_commit
from diffprep_assets.shard_plan.members import Member
from diffprep_resources.errors import SampleReject
from diffprep_resources.progress.base import SampleCounts
from diffprep_resources.storage.locks import hold
from diffprep_resources.storage.row_file import RowFileWriter, read_header


def sample_fingerprint(stage: str, *, settings: dict[str, Any], inputs: Sequence[Any]) -> str:
    """What decides one sample's row at `stage`."""
    return digest_of([stage, FORMAT_VERSIONS[stage], settings, list(inputs)])


def shard_metadata(
    task: PartitionTask,
    members: Sequence[Member],
    *,
    settings: dict[str, Any],
    fingerprints: Sequence[str],
) -> dict[str, Any]:
    """The header of a shard's row file; row i belongs to the i-th sample_id."""
    return {
        "fingerprint": task.fingerprint,
        "settings": settings,
        "sample_ids": [member.planned.sample_id for member in members],
        "fingerprints": list(fingerprints),
    }


def reject_row(
    stage: str, member: Member, reject: SampleReject, *, fingerprint: str
) -> dict[str, Any]:
    """A sample left out while encoding, as the row file keeps it."""
    return {
        "sample_id": member.planned.sample_id,
        "source_key": member.planned.sample.source_key,
        "stage": stage,
        "code": reject.code,
        "message": reject.message,
        "transient": reject.transient,
        "fingerprint": fingerprint,
    }


@dataclass(frozen=True, slots=True)
class TakenOver:
    """What of a shard needs no encoding: `rest` are the numbers of the rows that do."""

    rest: list[int]
    rejects: list[dict[str, Any]]


def taken_over(
    stage: str,
    layout: Layout,
    members: Sequence[Member],
    *,
    fingerprints: Sequence[str],
    rows: RowFileWriter,
    retry_rejects: bool = False,
) -> TakenOver:
    """Copy into `rows` every row that was encoded before with the very same fingerprint.

    With `retry_rejects`, a sample whose reject is transient is not taken over, but encoded again.
    """
    shards = [shard for shard in [members[0].planned.shard] if shard is not None]
    shards += [shard for member in members for shard in member.planned.former]
    rest, rejects = [], []
    with encoded_rows(layout, stage, shards=shards, wanted=fingerprints) as known:
        for number, fingerprint in enumerate(fingerprints):
            reject = known.reject(fingerprint)
            if reject is not None and retry_rejects and reject["transient"]:
                rest.append(number)
                continue
            tensors = known.find(fingerprint) if reject is None else None
            if reject is not None:
                sample_id = members[number].planned.sample_id
                source_key = members[number].planned.sample.source_key
                rejects.append({**reject, "sample_id": sample_id, "source_key": source_key})
            elif tensors is None:
                rest.append(number)
            else:
                for name, tensor in tensors.items():
                    rows.write_tensor(name, number, tensor)
    return TakenOver(rest, rejects)


def encoded_result(
    path: Path,
    task: PartitionTask,
    *,
    encoded: int,
    rejects: Sequence[dict[str, Any]],
    facts: dict[str, int],
) -> PartitionResult:
    """The result of a shard just written: `encoded` rows were worked on, the others taken over."""
    kept = task.num_samples - len(rejects)
    counts = SampleCounts(
        samples_in=task.num_samples,
        samples_out=kept,
        encoded=encoded,
        reused=kept - encoded,
        rejects=Counter(reject["code"] for reject in rejects),
    )
    return PartitionResult(task.fingerprint, counts, path.stat().st_size, facts)


def finish_broken_commit(layout: Layout, shard: str) -> None:
    """Settle the commit of a finished shard that a crash broke off, so that its rows are of use."""
    layout = layout.of_rows
    if layout.shard_next_record(shard).exists():
        lock = layout.partition_lock("shard", shard)
        with hold(lock, holder=f"a run mending {shard}", wait_s=LOCK_WAIT_S):
            finish_commit(layout, shard)


def finished_rows(layout: Layout, stage: str, task: PartitionTask) -> PartitionResult | None:
    """The result on disk when the shard's rows carry the task's fingerprint: in a row file, or
    in the finished shard whose rows they became."""
    path = row_path(layout, stage, task.key)
    header = read_header(path)
    if header is not None and header.metadata["fingerprint"] == task.fingerprint:
        if task.retry_rejects and any(reject["transient"] for reject in header.rejects):
            return None
        codes = [reject["code"] for reject in header.rejects]
        counts = reused_counts(len(header.metadata["sample_ids"]), codes)
        return PartitionResult(task.fingerprint, counts, path.stat().st_size)
    layout = layout.of_rows
    record = whole_record(layout, task.key)
    if record is None or layout.shard_bad(task.key).exists():
        return None
    if record.inputs.get(stage) != task.fingerprint:
        return None
    rejects = [reject for reject in record.rejects if reject.stage == stage]
    if task.retry_rejects and any(reject.transient for reject in rejects):
        return None
    codes = [reject.code for reject in rejects]
    return PartitionResult(task.fingerprint, reused_counts(task.num_samples, codes), 0)
