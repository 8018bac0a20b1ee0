"""Whom encoding left out of a shard: every format leaves out the same samples."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from diffprep_assets.encoded_rows import row_path, whole_record
from diffprep_assets.layout import Layout
from diffprep_resources.errors import StageInputError
from diffprep_resources.storage.row_file import read_header


def encode_rejects(layout: Layout, shard: str, made: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Rejects of a shard at each encode stage, as the row files or the finished shard have them.

    `made` gives the shard's fingerprint by stage; files of another one tell nothing. Each reject
    has `sample_id`, `source_key`, `stage`, `code`, `message`, `transient` and `fingerprint`.
    """
    for stage, fingerprint in made.items():
        yield from _rejects_at(layout, shard, stage, fingerprint) or ()


def left_out(layout: Layout, shard: str, made: Mapping[str, str]) -> dict[int, dict[str, Any]]:
    """The same by sample_id, the first stage's reject of each.

    Raises StageInputError, naming the stage, where the shard's rows are not those of `made`.
    """
    found: dict[int, dict[str, Any]] = {}
    for stage, fingerprint in made.items():
        rejects = _rejects_at(layout, shard, stage, fingerprint)
        if rejects is None:
            there = row_path(layout, stage, shard).exists()
            raise StageInputError(
                f"shard {shard}: {stage} is {'stale' if there else 'missing'}; run "
                f"`diffprep run {layout.dataset}`"
            )
        for reject in rejects:
            found.setdefault(reject["sample_id"], reject)
    return found


def _rejects_at(
    layout: Layout, shard: str, stage: str, fingerprint: str
) -> list[dict[str, Any]] | None:
    """Of one stage; None where neither row file nor finished shard is of this fingerprint."""
    header = read_header(row_path(layout, stage, shard))
    if header is not None and header.metadata["fingerprint"] == fingerprint:
        return list(header.rejects)
    record = whole_record(layout.of_rows, shard)
    if record is not None and record.inputs.get(stage) == fingerprint:
        return [asdict(reject) for reject in record.rejects if reject.stage == stage]
    return None
