"""Encodes the first frames of a shard's clips: what image-to-video training is conditioned on."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from diffprep_assets.dataset import Dataset
from diffprep_assets.encode_latents.clip_pixels import clip_pixels
from diffprep_assets.encode_latents.worker import CLIP_LOAD_THREADS
from diffprep_assets.encode_worker import MembersJob, MembersWorker, Numbered
from diffprep_assets.encoded_shard import sample_fingerprint
from diffprep_assets.layout import Layout
from diffprep_assets.shard_plan.plan import Bucket, PlannedSample
from diffprep_resources.encoders.base import ClipEncoderFamily, FirstFrameEncoder, RowLayout
from diffprep_resources.encoders.families import clip_family
from diffprep_resources.sources.base import Source
from diffprep_resources.storage.row_file import RowFileWriter

if TYPE_CHECKING:
    import torch

STAGE = "encode_first_frame"


@dataclass(frozen=True, slots=True)
class FramesSpec:
    """All that a process needs to encode first frames. `settings` is what the fingerprint
    covers."""

    layout: Layout
    source: Source
    encoders: ClipEncoderFamily
    settings: dict[str, Any]
    batch_size: int
    load_threads: int = CLIP_LOAD_THREADS


@dataclass(frozen=True, slots=True)
class FirstFrameSpec(FramesSpec):
    """That of encode_first_frame."""

    def build(self) -> "FirstFrameWorker":
        return FirstFrameWorker(self)


def first_frame_spec(dataset: Dataset, batch_size: int) -> FirstFrameSpec:
    """What the dataset's first frames are encoded with. Raises ModelError."""
    encoders, settings = clip_family(dataset.encoders), dataset.first_frame_settings
    return FirstFrameSpec(dataset.layout, dataset.source, encoders, settings, batch_size)


class FirstFrameWorker(MembersWorker[FirstFrameSpec, FirstFrameEncoder]):
    """The VAE on one device. A row is its latents of the frame, and the frame itself."""

    stage = STAGE

    def load(self, device: str) -> FirstFrameEncoder:
        return self.spec.encoders.first_frame_encoder(device)

    def row_layout(self, bucket: Bucket) -> RowLayout:
        layout = self.encoder.row_layout(bucket.width, bucket.height, num_frames=bucket.frames)
        return {**layout, "pil_image": ("float32", (3, bucket.height, bucket.width))}

    def fingerprint(self, planned: PlannedSample) -> str:
        return first_frame_fingerprint(planned, self.spec.settings)

    def job(self, bucket: Bucket, rows: RowFileWriter) -> "FirstFrameJob":
        return FirstFrameJob(self.spec, self.encoder, rows, bucket=bucket)


def first_frame_fingerprint(planned: PlannedSample, settings: dict[str, Any]) -> str:
    """What decides one row: the frame, its crop, and the size and length of the clip."""
    sample = planned.sample
    frame = sample.clip.wanted_pts[0] if sample.clip else None
    inputs = [sample.image_digest, sample.bucket.name, sample.crop, frame]
    return sample_fingerprint(STAGE, settings=settings, inputs=inputs)


class FrameJob(MembersJob):
    """First frames through an encoder of them."""

    def __init__(
        self, spec: FramesSpec, encoder: FirstFrameEncoder, rows: RowFileWriter, *, bucket: Bucket
    ) -> None:
        super().__init__(rows)
        self.spec = spec
        self.encoder = encoder
        self._num_frames = bucket.frames
        self._blank = np.zeros((bucket.height, bucket.width, 3), np.uint8)

    def load(self, item: Numbered) -> np.ndarray:
        """uint8 [H, W, 3] of the bucket's size."""
        return clip_pixels(self.spec.source, item[1], first=1)[0]

    def blank(self) -> np.ndarray:
        return self._blank

    def encode(
        self, items: Sequence[Numbered | None], batch: list[np.ndarray], *, float32: bool
    ) -> "dict[str, torch.Tensor]":
        return self.encoder.encode(np.stack(batch), num_frames=self._num_frames, float32=float32)


class FirstFrameJob(FrameJob):
    """Their latents; and the frames themselves, float32 [3, H, W] from 0 to 255, as FastVideo reads
    them."""

    def encode(
        self, items: Sequence[Numbered | None], batch: list[np.ndarray], *, float32: bool
    ) -> "dict[str, torch.Tensor]":
        import torch

        frames_BCHW = np.stack(batch).transpose(0, 3, 1, 2).astype(np.float32, order="C")
        encoded = super().encode(items, batch, float32=float32)
        return {**encoded, "pil_image": torch.from_numpy(frames_BCHW)}
