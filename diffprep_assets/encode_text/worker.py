"""Encodes the captions of one shard; a caption that repeats within it is encoded once."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diffprep_assets.encoded_shard import (
    encoded_result,
    finish_broken_commit,
    finished_rows,
    reject_row,
    sample_fingerprint,
    shard_metadata,
    taken_over,
)
from diffprep_assets.layout import Layout
from diffprep_assets.partition_worker import PartitionResult, PartitionTask, PartitionWorker
from diffprep_assets.shard_plan.members import members_of_shard
from diffprep_assets.shard_plan.plan import PlannedSample
from diffprep_resources.compute.base import Report, unheard
from diffprep_resources.compute.batches import BatchJob, encode_in_batches
from diffprep_resources.compute.memory import memory_peak
from diffprep_resources.encoders.base import EncoderFamily, TextEncoder
from diffprep_resources.encoders.threads import one_thread_on_cpu
from diffprep_resources.storage.row_file import RowFileWriter, read_header, row_file

if TYPE_CHECKING:
    import torch

STAGE = "encode_text"


@dataclass(frozen=True, slots=True)
class TextSpec:
    """All that a process needs to encode captions. `settings` is what the fingerprint covers."""

    layout: Layout
    encoders: EncoderFamily
    settings: dict[str, Any]
    batch_size: int

    def build(self) -> "TextWorker":
        return TextWorker(self)


@dataclass(frozen=True, slots=True)
class EmptyCaptionTask:
    """Encodes the empty caption, which trainers drop in for others. No partition of its own."""

    fingerprint: str
    key: str = "empty caption"
    num_samples: int = 0


class TextWorker(PartitionWorker):
    """The text encoders on one device."""

    def __init__(self, spec: TextSpec) -> None:
        self.spec = spec
        self.device = "cpu"
        self.encoder: TextEncoder | None = None

    def setup(self, device: str) -> None:
        one_thread_on_cpu(device)
        self.device = device
        self.encoder = self.spec.encoders.text_encoder(device)

    def lock(self, task: PartitionTask | EmptyCaptionTask) -> Path:
        return self.spec.layout.partition_lock(STAGE, task.key.replace(" ", "_"))

    def finished(self, task: PartitionTask | EmptyCaptionTask) -> PartitionResult | None:
        if isinstance(task, EmptyCaptionTask):
            return None
        finish_broken_commit(self.spec.layout, task.key)
        return finished_rows(self.spec.layout, STAGE, task)

    def make(self, task: PartitionTask | EmptyCaptionTask, report: Report) -> PartitionResult:
        if self.encoder is None:
            raise RuntimeError("setup was not called")
        if isinstance(task, EmptyCaptionTask):
            return self._empty(task, self.encoder)
        return self._shard(task, self.encoder, report)

    def close(self) -> None:
        if self.encoder is not None:
            self.encoder.close()
            self.encoder = None

    def _shard(self, task: PartitionTask, encoder: TextEncoder, report: Report) -> PartitionResult:
        spec, path = self.spec, self.spec.layout.text(task.key)
        members = members_of_shard(spec.layout, task.key)
        fingerprints = [caption_fingerprint(member.planned, spec.settings) for member in members]
        metadata = shard_metadata(task, members, settings=spec.settings, fingerprints=fingerprints)
        metadata["tokens"] = tokens = _tokens(encoder, [member.caption for member in members])
        with row_file(
            path, rows=encoder.row_layout(), num_rows=len(members), metadata=metadata
        ) as rows:
            taken = taken_over(
                STAGE,
                spec.layout,
                members,
                fingerprints=fingerprints,
                rows=rows,
                retry_rejects=task.retry_rejects,
            )
            captions: dict[str, list[int]] = {}
            for number in taken.rest:
                captions.setdefault(members[number].caption, []).append(number)
            report(len(members) - len(captions), len(taken.rejects))
            result = encode_in_batches(
                captions.items(),
                CaptionJob(encoder, rows),
                batch_size=spec.batch_size,
                load_threads=1,
                report=report,
            )
            rejects = taken.rejects + [
                reject_row(STAGE, members[number], reject, fingerprint=fingerprints[number])
                for (_, numbers), reject in result.rejects
                for number in numbers
            ]
            rows.close(rejects=rejects)
        encoded = len(taken.rest) + len(taken.rejects) - len(rejects)
        facts = {
            "batch_size": result.batch_size,
            "captions_encoded": result.encoded,
            "memory_peak_bytes": memory_peak(self.device),
        }
        facts |= truncation_facts(tokens)
        return encoded_result(path, task, encoded=encoded, rejects=rejects, facts=facts)

    def _empty(self, task: EmptyCaptionTask, encoder: TextEncoder) -> PartitionResult:
        path = self.spec.layout.empty_encodings
        metadata = {"fingerprint": task.fingerprint, "settings": self.spec.settings}
        with row_file(path, rows=encoder.row_layout(), num_rows=1, metadata=metadata) as rows:
            job = CaptionJob(encoder, rows)
            encode_in_batches(
                [("", [0])],
                job,
                batch_size=self.spec.batch_size,
                load_threads=1,
                report=unheard,
            )
            rows.close(rejects=[])
        return encoded_result(
            path, PartitionTask(task.key, 0, task.fingerprint), encoded=0, rejects=[], facts={}
        )


def empty_caption_is_fresh(layout: Layout, fingerprint: str) -> bool:
    """Whether the empty caption's encoding is there and carries the fingerprint."""
    header = read_header(layout.empty_encodings)
    return header is not None and header.metadata["fingerprint"] == fingerprint


def caption_fingerprint(planned: PlannedSample, settings: dict[str, Any]) -> str:
    """What decides one row of text embeddings."""
    return sample_fingerprint(STAGE, settings=settings, inputs=[planned.sample.caption_digest])


def truncation_facts(tokens: dict[str, dict[str, int]]) -> dict[str, int]:
    """Captions cut short by each encoder, and the longest one's tokens."""
    return {
        f"{encoder}_{name}": count
        for encoder, counts in tokens.items()
        for name, count in counts.items()
    }


def _tokens(encoder: TextEncoder, captions: Sequence[str]) -> dict[str, dict[str, int]]:
    """By encoder: captions that are cut short; its limit and the longest caption, in tokens."""
    limits = encoder.token_limits
    return {
        role: {
            "limit": limits[role],
            "truncated": sum(count > limits[role] for count in counts),
            "longest": max(counts, default=0),
        }
        for role, counts in sorted(encoder.token_counts(captions).items())
    }


class CaptionJob(BatchJob[tuple[str, list[int]], str]):
    """Items are captions with the rows that they fill."""

    def __init__(self, encoder: TextEncoder, rows: RowFileWriter) -> None:
        self.encoder = encoder
        self.rows = rows

    def load(self, item: tuple[str, list[int]]) -> str:
        return item[0]

    def blank(self) -> str:
        return ""

    def encode(
        self,
        items: Sequence[tuple[str, list[int]] | None],
        batch: list[str],
        *,
        float32: bool,
    ) -> "dict[str, torch.Tensor]":
        return self.encoder.encode(batch, float32=float32)

    def write(self, item: tuple[str, list[int]], row: "dict[str, torch.Tensor]") -> None:
        for name, tensor in row.items():
            for number in item[1]:
                self.rows.write_tensor(name, number, tensor)
