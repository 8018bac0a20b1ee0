"""Encodes the captions of one shard; a caption that repeats within it is encoded once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diffprep_assets.dataset import Dataset
from diffprep_assets.encode_worker import EncodeWorker, RowsJob
from diffprep_assets.encoded_shard import encoded_result, sample_fingerprint
from diffprep_assets.layout import Layout
from diffprep_assets.partition_worker import PartitionResult, PartitionTask
from diffprep_assets.shard_plan.members import Member
from diffprep_assets.shard_plan.plan import Bucket, PlannedSample
from diffprep_resources.compute.base import Report, unheard
from diffprep_resources.compute.batches import encode_in_batches
from diffprep_resources.encoders.base import EncoderFamily, RowLayout, TextEncoder
from diffprep_resources.storage.row_file import RowFileWriter, read_header, row_file

if TYPE_CHECKING:
    import torch

STAGE = "encode_text"

Caption = tuple[str, list[int]]


@dataclass(frozen=True, slots=True)
class TextSpec:
    """All that a process needs to encode captions. `settings` is what the fingerprint covers."""

    layout: Layout
    encoders: EncoderFamily
    settings: dict[str, Any]
    batch_size: int
    load_threads: int = 1

    def build(self) -> "TextWorker":
        return TextWorker(self)


@dataclass(frozen=True, slots=True)
class EmptyCaptionTask:
    """Encodes the empty caption, which trainers drop in for others. No partition of its own."""

    fingerprint: str
    key: str = "empty caption"
    num_samples: int = 0


class TextWorker(EncodeWorker[TextSpec, TextEncoder, Caption]):
    """The text encoders on one device."""

    stage = STAGE

    def load(self, device: str) -> TextEncoder:
        return self.spec.encoders.text_encoder(device)

    def row_layout(self, bucket: Bucket) -> RowLayout:
        return self.encoder.row_layout()

    def fingerprint(self, planned: PlannedSample) -> str:
        return caption_fingerprint(planned, self.spec.settings)

    def items(self, members: Sequence[Member], rest: Sequence[int]) -> list[Caption]:
        captions: dict[str, list[int]] = {}
        for number in rest:
            captions.setdefault(members[number].caption, []).append(number)
        return list(captions.items())

    def job(self, bucket: Bucket, rows: RowFileWriter) -> "CaptionJob":
        return CaptionJob(self.encoder, rows)

    def told(self, members: Sequence[Member]) -> dict[str, Any]:
        return {"tokens": _tokens(self.encoder, [member.caption for member in members])}

    def facts(self, told: Mapping[str, Any], encoded: int) -> dict[str, int]:
        return {"captions_encoded": encoded, **truncation_facts(told["tokens"])}

    def lock(self, task: PartitionTask | EmptyCaptionTask) -> Path:
        return self.spec.layout.partition_lock(STAGE, task.key.replace(" ", "_"))

    def finished(self, task: PartitionTask | EmptyCaptionTask) -> PartitionResult | None:
        return None if isinstance(task, EmptyCaptionTask) else super().finished(task)

    def make(self, task: PartitionTask | EmptyCaptionTask, report: Report) -> PartitionResult:
        if isinstance(task, EmptyCaptionTask):
            return self._empty(task, self.encoder)
        return super().make(task, report)

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


def text_spec(dataset: Dataset, batch_size: int) -> TextSpec:
    """What the dataset's captions are encoded with."""
    return TextSpec(dataset.layout, dataset.encoders, dataset.text_settings, batch_size)


def empty_caption_tasks(dataset: Dataset) -> Sequence[EmptyCaptionTask]:
    """The empty caption, unless its encoding is there and fresh."""
    fingerprint = dataset.empty_text_fingerprint
    if empty_caption_is_fresh(dataset.layout, fingerprint):
        return ()
    return (EmptyCaptionTask(fingerprint),)


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


class CaptionJob(RowsJob[Caption, str]):
    """Items are captions with the rows that they fill."""

    def __init__(self, encoder: TextEncoder, rows: RowFileWriter) -> None:
        super().__init__(rows)
        self.encoder = encoder

    def numbers(self, item: Caption) -> Sequence[int]:
        return item[1]

    def load(self, item: Caption) -> str:
        return item[0]

    def blank(self) -> str:
        return ""

    def encode(
        self, items: Sequence[Caption | None], batch: list[str], *, float32: bool
    ) -> "dict[str, torch.Tensor]":
        return self.encoder.encode(batch, float32=float32)
