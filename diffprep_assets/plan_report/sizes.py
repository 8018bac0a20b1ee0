"""Bytes that the rest of a run writes, from the encoders' row layouts; nothing is encoded."""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from diffprep_assets.layout import Layout
from diffprep_assets.plan_report.facts import DiskFacts, SizeFacts
from diffprep_assets.plan_report.kept_rows import KeptRows
from diffprep_assets.shard.members import SampleMetadata, metadata_bytes, tensor_bytes
from diffprep_assets.shard.tar_writer import BLOCK, RECORD
from diffprep_assets.shard_plan.plan import Bucket, PlannedShard
from diffprep_resources.storage.row_file import DTYPES, ITEM_BYTES, RowLayout

if TYPE_CHECKING:
    from diffprep_resources.encoders.base import EncoderFamily

# Of one sample and of one of its members in index.sqlite, of a sample in digests.parquet and in a
# row file's header, and of the small files of a dataset: measured.
SQLITE_SAMPLE, SQLITE_MEMBER = 106, 84
DIGEST, ROW_HEADER = 100, 60
SMALL_FILES = 100_000


@dataclass(slots=True)
class TextBytes:
    """Bytes that the members without tensors take in tars, padded, summed over all samples."""

    total: int = 0

    def add(self, rows: KeptRows) -> None:
        blank = len(metadata_bytes(_metadata()))
        json_bytes = blank + rows.lengths("source_key").astype(np.int64)
        captions = rows.lengths("caption").astype(np.int64)
        self.total += int(_padded(json_bytes).sum() + _padded(captions).sum())


def _metadata() -> SampleMetadata:
    """Metadata of usual length, less its source key."""
    return SampleMetadata("", 1000, 1000, 512, 512, 100, 100, 1000, 1000, "0" * 32, "0" * 32)


def _padded(sizes: np.ndarray) -> np.ndarray:
    return (sizes + BLOCK - 1) // BLOCK * BLOCK


class Sizes:
    """Sizes of this dataset's files. Raises ModelError where the encoders cannot be had."""

    def __init__(self, encoders: "EncoderFamily", text_bytes: TextBytes, samples: int) -> None:
        self._encoders = encoders
        self._mean_text = text_bytes.total / max(1, samples)

    def row_bytes(self, bucket: Bucket) -> tuple[int, int]:
        """Of one sample's latents and of its text embeddings, without headers."""
        latents = self._encoders.latents_layout(bucket.width, bucket.height)
        return row_bytes(latents), row_bytes(self._encoders.text_layout())

    def tar(self, shard: PlannedShard) -> int:
        """One shard's tar: headers, tensors as torch.save writes them, padding, the end."""
        layout = {
            **self._encoders.latents_layout(shard.bucket.width, shard.bucket.height),
            **self._encoders.text_layout(),
        }
        tensors = sum(_tensor_member(*entry) for entry in layout.values())
        sample = tensors + 2 * BLOCK + self._mean_text
        content = round(shard.num_samples * sample) + 2 * BLOCK
        return -(-content // RECORD) * RECORD

    def rows(self, shard: PlannedShard) -> tuple[int, int]:
        """One shard's row files of latents and of text."""
        latents, text = self.row_bytes(shard.bucket)
        header = 1000 + ROW_HEADER * shard.num_samples
        return (latents * shard.num_samples + header, text * shard.num_samples + header)

    def metadata(self, samples: int, shards: int, *, finalize: bool) -> int:
        """Index, card and empty encodings beside the tars."""
        layout = self._encoders.text_layout()
        if not finalize:
            return SMALL_FILES
        empty = sum(4 * math.prod(shape) + 128 for _, shape in layout.values())
        members = 5 if len(self._encoders.latents_layout(256, 256)) == 1 else 7
        per_sample = SQLITE_SAMPLE + SQLITE_MEMBER * members + DIGEST + 8
        return empty + per_sample * samples + 100 * shards + SMALL_FILES

    def facts(self, shards: Sequence[PlannedShard], *, kept: bool, finalize: bool) -> SizeFacts:
        """The whole dataset."""
        tars = sum(self.tar(shard) for shard in shards)
        rows = [self.rows(shard) for shard in shards]
        samples = sum(shard.num_samples for shard in shards)
        return SizeFacts(
            tars=tars,
            metadata=self.metadata(samples, len(shards), finalize=finalize),
            latents=sum(latents for latents, _ in rows),
            text=sum(text for _, text in rows),
            kept=kept,
            mean_tar=tars // max(1, len(shards)),
        )


def row_bytes(layout: RowLayout) -> int:
    """Bytes of one sample's tensors."""
    return sum(math.prod(shape) * ITEM_BYTES[DTYPES[dtype]] for dtype, shape in layout.values())


@cache
def _tensor_member(dtype: str, shape: tuple[int, ...]) -> int:
    """Bytes of a tensor's member in a tar, header and padding included."""
    import torch

    size = len(tensor_bytes(torch.zeros(shape, dtype=getattr(torch, dtype))))
    return BLOCK + -(-size // BLOCK) * BLOCK


@dataclass(frozen=True, slots=True)
class ToWrite:
    """Bytes that are not on disk yet: of row files and of tars, and of what is published."""

    rows: int
    tars: int
    published: int

    @property
    def peak(self) -> int:
        """Of the work folder at its fullest, while row files give way to tars."""
        return max(self.rows, self.tars)


def disk_facts(layout: Layout, to_write: ToWrite, *, kept: bool) -> tuple[DiskFacts, ...]:
    """The filesystems of the work and of the output folder; one entry where they are one.

    Published tars are hard links where that is possible, and take no place of their own then.
    """
    work, output = _existing(layout.folder), _existing(layout.output_dir)
    needed = to_write.rows + to_write.tars if kept else to_write.peak
    if work.stat().st_dev == output.stat().st_dev:
        both = f"{layout.folder} and {layout.output_dir}"
        return (DiskFacts(both, "work and output", _free(work), needed),)
    return (
        DiskFacts(str(layout.folder), "work", _free(work), needed),
        DiskFacts(str(layout.output_dir), "output", _free(output), to_write.published),
    )


def _existing(folder: Path) -> Path:
    while not folder.exists():
        folder = folder.parent
    return folder


def _free(folder: Path) -> int:
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


def to_write(
    sizes: Sizes, shards: Sequence[PlannedShard], made: Mapping[str, tuple[bool, bool, bool]]
) -> ToWrite:
    """What is still to be written. `made` says by shard whether latents, text and tar are there."""
    rows = tars = published = 0
    for shard in shards:
        latents, text, tar = made[shard.shard]
        of_latents, of_text = sizes.rows(shard)
        size = sizes.tar(shard)
        rows += (0 if latents or tar else of_latents) + (0 if text or tar else of_text)
        tars += 0 if tar else size
        published += size
    return ToWrite(rows, tars, published)
