"""Encodes the pictures or clips of one shard: bytes, upright pixels, crop, VAE, one row each."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from diffprep_assets.dataset import Dataset
from diffprep_assets.encode_latents.clip_pixels import clip_pixels
from diffprep_assets.encode_latents.pixels import planned_pixels
from diffprep_assets.encode_worker import MembersJob, MembersWorker, Numbered
from diffprep_assets.encoded_shard import sample_fingerprint
from diffprep_assets.layout import Layout
from diffprep_assets.shard_plan.plan import Bucket, PlannedSample
from diffprep_resources.compute.engines import num_cores
from diffprep_resources.encoders.base import EncoderFamily, LatentsEncoder, RowLayout
from diffprep_resources.pictures.decode import PictureLimits
from diffprep_resources.sources.base import Source
from diffprep_resources.storage.row_file import RowFileWriter

if TYPE_CHECKING:
    import torch

STAGE = "encode_latents"
CLIP_LOAD_THREADS = 1
"""One clip of 77 frames at 832x480 is 92 MB of pixels: while one is encoded, the next is read."""


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


class LatentsWorker(MembersWorker[LatentsSpec, LatentsEncoder]):
    """The VAE on one device."""

    stage = STAGE

    def load(self, device: str) -> LatentsEncoder:
        return self.spec.encoders.latents_encoder(device)

    def row_layout(self, bucket: Bucket) -> RowLayout:
        return latents_layout(self.encoder, bucket)

    def fingerprint(self, planned: PlannedSample) -> str:
        return picture_fingerprint(planned, self.spec.settings)

    def job(self, bucket: Bucket, rows: RowFileWriter) -> "PictureJob":
        return PictureJob(self.spec, self.encoder, rows, shape=pixels_shape(bucket))


def latents_spec(dataset: Dataset, batch_size: int) -> LatentsSpec:
    """What the dataset's latents are made with; of clips, one is read while another is encoded."""
    image = dataset.recipe.image
    spec = LatentsSpec(
        dataset.layout,
        dataset.source,
        dataset.encoders,
        dataset.latents_settings,
        image.background,
        PictureLimits(max_pixels=image.max_pixels, min_side=image.min_side),
        batch_size,
    )
    return spec if dataset.recipe.video is None else replace(spec, load_threads=CLIP_LOAD_THREADS)


def latents_layout(encoder: LatentsEncoder | EncoderFamily, bucket: Bucket) -> RowLayout:
    """The tensors of one sample of the bucket, picture or clip."""
    layout = encoder.latents_layout if isinstance(encoder, EncoderFamily) else encoder.row_layout
    return layout(bucket.width, bucket.height, num_frames=bucket.frames or 1)


def pixels_shape(bucket: Bucket) -> tuple[int, ...]:
    """[H, W, 3] of a bucket's pictures, [T, H, W, 3] of its clips."""
    shape = (bucket.height, bucket.width, 3)
    return (bucket.frames, *shape) if bucket.frames else shape


def picture_fingerprint(planned: PlannedSample, settings: dict[str, Any]) -> str:
    """What decides one row of latents."""
    sample = planned.sample
    inputs = [planned.sample_id, sample.image_digest, sample.bucket.name, sample.crop]
    if sample.clip is not None:
        inputs.append(list(sample.clip.wanted_pts))
    return sample_fingerprint(STAGE, settings=settings, inputs=inputs)


class PictureJob(MembersJob):
    """Pictures or clips."""

    def __init__(
        self,
        spec: LatentsSpec,
        encoder: LatentsEncoder,
        rows: RowFileWriter,
        *,
        shape: tuple[int, ...],
    ) -> None:
        super().__init__(rows)
        self.spec = spec
        self.encoder = encoder
        self._blank = np.zeros(shape, np.uint8)

    def load(self, item: Numbered) -> np.ndarray:
        """uint8 pixels of the bucket's shape, of the picture or clip that `bucket` saw."""
        _, member = item
        if member.clip is not None:
            return clip_pixels(self.spec.source, member)
        return planned_pixels(
            self.spec.source.read_image(member.location),
            sample=member.planned.sample,
            limits=self.spec.limits,
            background=self.spec.background,
        )

    def blank(self) -> np.ndarray:
        return self._blank

    def encode(
        self, items: Sequence[Numbered | None], batch: list[np.ndarray], *, float32: bool
    ) -> "dict[str, torch.Tensor]":
        sample_ids = [item[1].planned.sample_id if item else 0 for item in items]
        return self.encoder.encode(np.stack(batch), sample_ids=sample_ids, float32=float32)
