"""Encodes the first frames of a shard's clips through the model's image encoder, where it has one:
rows without tensors stand for those of a model that has none."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from diffprep_assets.dataset import Dataset
from diffprep_assets.encode_first_frame.worker import FrameJob, FramesSpec
from diffprep_assets.encode_worker import MembersWorker, Numbered
from diffprep_assets.encoded_shard import sample_fingerprint
from diffprep_assets.shard_plan.members import Member
from diffprep_assets.shard_plan.plan import Bucket, PlannedSample
from diffprep_resources.encoders.base import FirstFrameEncoder, RowLayout
from diffprep_resources.encoders.families import clip_family
from diffprep_resources.storage.row_file import RowFileWriter

if TYPE_CHECKING:
    import numpy as np
    import torch

STAGE = "encode_clip"


@dataclass(frozen=True, slots=True)
class ClipSpec(FramesSpec):
    """That of encode_clip."""

    def build(self) -> "ClipWorker":
        return ClipWorker(self)


def clip_spec(dataset: Dataset, batch_size: int) -> ClipSpec:
    """What the features of the dataset's first frames are made with. Raises ModelError."""
    encoders, settings = clip_family(dataset.encoders), dataset.clip_settings
    return ClipSpec(dataset.layout, dataset.source, encoders, settings, batch_size)


class ClipWorker(MembersWorker[ClipSpec, FirstFrameEncoder]):
    """The image encoder on one device."""

    stage = STAGE

    def load(self, device: str) -> FirstFrameEncoder:
        encoders = self.spec.encoders
        return encoders.image_encoder(device) if encoders.has_image_features else NoFeatures()

    def row_layout(self, bucket: Bucket) -> RowLayout:
        return self.encoder.row_layout(bucket.width, bucket.height, num_frames=bucket.frames)

    def fingerprint(self, planned: PlannedSample) -> str:
        return clip_fingerprint(planned, self.spec.settings)

    def items(self, members: Sequence[Member], rest: Sequence[int]) -> list[Numbered]:
        return super().items(members, rest) if self.spec.encoders.has_image_features else []

    def job(self, bucket: Bucket, rows: RowFileWriter) -> FrameJob:
        return FrameJob(self.spec, self.encoder, rows, bucket=bucket)


class NoFeatures(FirstFrameEncoder):
    """Stands for the encoder of a model that has none."""

    def row_layout(self, width: int, height: int, *, num_frames: int) -> RowLayout:
        return {}

    def encode(
        self, pixels_BHWC: "np.ndarray", *, num_frames: int, float32: bool = False
    ) -> "dict[str, torch.Tensor]":
        return {}

    def close(self) -> None:
        """There is nothing to let go of."""


def clip_fingerprint(planned: PlannedSample, settings: dict[str, Any]) -> str:
    """What decides one row: the frame and its crop. How long the clip is makes no difference."""
    sample = planned.sample
    frame = sample.clip.wanted_pts[0] if sample.clip else None
    size = [sample.bucket.width, sample.bucket.height]
    inputs = [sample.image_digest, size, sample.crop, frame]
    return sample_fingerprint(STAGE, settings=settings, inputs=inputs)
