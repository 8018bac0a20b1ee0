"""Encodes the pictures of one shard: bytes, upright pixels, crop, VAE, one row each."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from diffprep_assets.encode_latents.pixels import planned_pixels
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
from diffprep_assets.shard_plan.members import Member, members_of_shard
from diffprep_assets.shard_plan.plan import PlannedSample
from diffprep_resources.compute.base import Report
from diffprep_resources.compute.batches import BatchJob, encode_in_batches
from diffprep_resources.compute.engines import num_cores
from diffprep_resources.compute.memory import memory_peak
from diffprep_resources.encoders.base import EncoderFamily, LatentsEncoder
from diffprep_resources.encoders.threads import one_thread_on_cpu
from diffprep_resources.pictures.decode import PictureLimits
from diffprep_resources.sources.base import Source
from diffprep_resources.storage.row_file import RowFileWriter, row_file

if TYPE_CHECKING:
    import torch

STAGE = "encode_latents"


@dataclass(frozen=True, slots=True)
class LatentsSpec:
    """All that a process needs to encode pictures. `settings` is what the fingerprint covers."""

    layout: Layout
    source: Source
    encoders: EncoderFamily
    settings: dict[str, Any]
    background: str
    limits: PictureLimits
    batch_size: int
    load_threads: int = field(default_factory=lambda: max(1, min(4, num_cores() // 2)))

    def build(self) -> "LatentsWorker":
        return LatentsWorker(self)


class LatentsWorker(PartitionWorker):
    """One VAE on one device."""

    def __init__(self, spec: LatentsSpec) -> None:
        self.spec = spec
        self.device = "cpu"
        self.encoder: LatentsEncoder | None = None

    def setup(self, device: str) -> None:
        one_thread_on_cpu(device)
        self.device = device
        self.encoder = self.spec.encoders.latents_encoder(device)

    def lock(self, task: PartitionTask) -> Path:
        return self.spec.layout.partition_lock(STAGE, task.key)

    def finished(self, task: PartitionTask) -> PartitionResult | None:
        finish_broken_commit(self.spec.layout, task.key)
        return finished_rows(self.spec.layout, STAGE, task)

    def make(self, task: PartitionTask, report: Report) -> PartitionResult:
        if self.encoder is None:
            raise RuntimeError("setup was not called")
        spec, path = self.spec, self.spec.layout.latents(task.key)
        members = members_of_shard(spec.layout, task.key)
        fingerprints = [picture_fingerprint(member.planned, spec.settings) for member in members]
        bucket = members[0].planned.sample.bucket
        with row_file(
            path,
            rows=self.encoder.row_layout(bucket.width, bucket.height),
            num_rows=len(members),
            metadata=shard_metadata(
                task, members, settings=spec.settings, fingerprints=fingerprints
            ),
        ) as rows:
            taken = taken_over(
                STAGE,
                spec.layout,
                members,
                fingerprints=fingerprints,
                rows=rows,
                retry_rejects=task.retry_rejects,
            )
            report(len(members) - len(taken.rest), len(taken.rejects))
            result = encode_in_batches(
                [(number, members[number]) for number in taken.rest],
                PictureJob(spec, self.encoder, rows, shape=(bucket.height, bucket.width, 3)),
                batch_size=spec.batch_size,
                load_threads=spec.load_threads,
                report=report,
            )
            rejects = taken.rejects + [
                reject_row(STAGE, member, reject, fingerprint=fingerprints[number])
                for (number, member), reject in result.rejects
            ]
            rows.close(rejects=rejects)
        facts = {
            "batch_size": result.batch_size,
            "memory_peak_bytes": memory_peak(self.device),
        }
        return encoded_result(path, task, encoded=result.encoded, rejects=rejects, facts=facts)

    def close(self) -> None:
        if self.encoder is not None:
            self.encoder.close()
            self.encoder = None


def picture_fingerprint(planned: PlannedSample, settings: dict[str, Any]) -> str:
    """What decides one row of latents."""
    sample = planned.sample
    return sample_fingerprint(
        STAGE,
        settings=settings,
        inputs=[planned.sample_id, sample.image_digest, sample.bucket.name, sample.crop],
    )


class PictureJob(BatchJob[tuple[int, Member], np.ndarray]):
    def __init__(
        self,
        spec: LatentsSpec,
        encoder: LatentsEncoder,
        rows: RowFileWriter,
        *,
        shape: tuple[int, int, int],
    ) -> None:
        self.spec = spec
        self.encoder = encoder
        self.rows = rows
        self._blank = np.zeros(shape, np.uint8)

    def load(self, item: tuple[int, Member]) -> np.ndarray:
        """Pixels [H, W, 3], uint8, of the picture that `bucket` saw."""
        _, member = item
        return planned_pixels(
            self.spec.source.read_image(member.location),
            sample=member.planned.sample,
            limits=self.spec.limits,
            background=self.spec.background,
        )

    def blank(self) -> np.ndarray:
        return self._blank

    def encode(
        self,
        items: Sequence[tuple[int, Member] | None],
        batch: list[np.ndarray],
        *,
        float32: bool,
    ) -> "dict[str, torch.Tensor]":
        sample_ids = [item[1].planned.sample_id if item else 0 for item in items]
        return self.encoder.encode(np.stack(batch), sample_ids=sample_ids, float32=float32)

    def write(self, item: tuple[int, Member], row: "dict[str, torch.Tensor]") -> None:
        for name, tensor in row.items():
            self.rows.write_tensor(name, item[0], tensor)
