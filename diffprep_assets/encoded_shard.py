"""What a file of encoded rows says of itself: which samples, made from what, and who is missing."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from diffprep_assets.freshness import FORMAT_VERSIONS, digest_of
from diffprep_assets.partition_worker import PartitionResult, PartitionTask, reused_counts
from diffprep_assets.shard_plan.members import Member
from diffprep_resources.errors import SampleReject
from diffprep_resources.progress.base import SampleCounts
from diffprep_resources.storage.row_file import read_header


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


def reject_rows(stage: str, rejects: Iterable[tuple[Member, SampleReject]]) -> list[dict[str, Any]]:
    """Rejects as the row file keeps them, by sample_id."""
    rows = [
        {
            "sample_id": member.planned.sample_id,
            "source_key": member.planned.sample.source_key,
            "stage": stage,
            "code": reject.code,
            "message": reject.message,
            "transient": reject.transient,
        }
        for member, reject in rejects
    ]
    return sorted(rows, key=lambda row: row["sample_id"])


def encoded_result(
    path: Path,
    task: PartitionTask,
    *,
    encoded: int,
    rejects: Sequence[str],
    facts: dict[str, int],
) -> PartitionResult:
    """The result of a shard just written: `encoded` rows were worked on, the others taken over."""
    kept = task.num_samples - len(rejects)
    counts = SampleCounts(
        samples_in=task.num_samples,
        samples_out=kept,
        encoded=encoded,
        reused=kept - encoded,
        rejects=Counter(rejects),
    )
    return PartitionResult(task.fingerprint, counts, path.stat().st_size, facts)


def finished_shard(path: Path, task: PartitionTask) -> PartitionResult | None:
    """The result on disk, when a whole file carries the task's fingerprint."""
    header = read_header(path)
    if header is None or header.metadata["fingerprint"] != task.fingerprint:
        return None
    codes = [reject["code"] for reject in header.rejects]
    counts = reused_counts(len(header.metadata["sample_ids"]), codes)
    return PartitionResult(task.fingerprint, counts, path.stat().st_size)
