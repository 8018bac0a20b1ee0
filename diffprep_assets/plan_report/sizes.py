"""Bytes that the rest of a run writes: encoded rows from the encoders' row layouts, stored pictures
from a few that were tried. Nothing is encoded."""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from diffprep_assets.layout import Layout
from diffprep_assets.plan_report.facts import DiskFacts, OutputSize, SizeFacts
from diffprep_assets.plan_report.kept_rows import KeptRows
from diffprep_assets.plan_report.stored_sizes import PictureSizes
from diffprep_assets.plan_report.work import Made
from diffprep_assets.recipe.formats import (
    SHARD_STAGE,
    Format,
    encode_stages,
    needs_latents,
    needs_text,
)
from diffprep_assets.recipe.schema import Recipe
from diffprep_assets.shard.members import SampleMetadata, metadata_bytes, tensor_bytes
from diffprep_assets.shard.tar_writer import BLOCK, RECORD
from diffprep_assets.shard_mds.columns import MdsColumns
from diffprep_assets.shard_plan.plan import Bucket, PlannedShard
from diffprep_resources.mds.layout import ShardConfig
from diffprep_resources.storage.row_file import DTYPES, ITEM_BYTES, RowLayout

if TYPE_CHECKING:
    from diffprep_resources.encoders.base import EncoderFamily

# Of one sample and of one of its members in index.sqlite, of a sample in digests.parquet and in a
# row file's header, and of the small files of a dataset: measured.
SQLITE_SAMPLE, SQLITE_MEMBER = 106, 84
DIGEST, ROW_HEADER = 100, 60
SMALL_FILES = 100_000
# Of an MDS sample: its offset, four sizes in pixels, the id, and a length for each other column;
# of a shard's entry in an index beside its config.
MDS_SAMPLE, MDS_COLUMN, MDS_ENTRY = 4 + 4 * 8 + 10, 4, 200


@dataclass(slots=True)
class TextBytes:
    """Bytes of the members without tensors, summed over all samples: as tars hold them, padded, and
    of the captions and source keys alone."""

    total: int = 0
    plain: int = 0

    def add(self, rows: KeptRows) -> None:
        blank = len(metadata_bytes(_metadata()))
        keys = rows.lengths("source_key").astype(np.int64)
        captions = rows.lengths("caption").astype(np.int64)
        self.total += int(_padded(blank + keys).sum() + _padded(captions).sum())
        self.plain += int(keys.sum() + captions.sum())


def _metadata() -> SampleMetadata:
    """Metadata of usual length, less its source key."""
    return SampleMetadata("", 1000, 1000, 512, 512, 100, 100, 1000, 1000, "0" * 32, "0" * 32)


def _padded(sizes: np.ndarray) -> np.ndarray:
    return (sizes + BLOCK - 1) // BLOCK * BLOCK


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of this dataset's files. `encoders` is None where no format needs any; `pictures` are
    those that were stored for a try, `samples` all that `text` was summed over."""

    recipe: Recipe
    encoders: "EncoderFamily | None"
    text: TextBytes
    samples: int
    pictures: Mapping[Format, PictureSizes]

    def row_bytes(self, bucket: Bucket) -> tuple[int, int]:
        """Of one sample's latents and of its text embeddings, without headers; 0 where no format
        holds them."""
        latents, text = self._layouts(bucket)
        return row_bytes(latents), row_bytes(text)

    def shard(self, shard: PlannedShard, *, format: Format) -> int:
        """One finished shard."""
        if format == "mds":
            return self._mds_config + round(shard.num_samples * self._mds_sample(shard.bucket))
        if format == "raw":
            sample = 3 * BLOCK + self._text(self.text.total)
            sample += self.pictures["raw"].bytes_of(shard.bucket) + BLOCK / 2
        else:
            latents, text = self._layouts(shard.bucket)
            tensors = [*latents.values(), *text.values()]
            sample = sum(_tensor_member(*entry) for entry in tensors)
            sample += 2 * BLOCK + self._text(self.text.total)
        content = round(shard.num_samples * sample) + 2 * BLOCK
        return -(-content // RECORD) * RECORD

    def rows(self, shard: PlannedShard) -> dict[str, int]:
        """One shard's row files, by the stage that writes them."""
        latents, text = self.row_bytes(shard.bucket)
        header = 1000 + ROW_HEADER * shard.num_samples
        each = {"encode_latents": latents, "encode_text": text}
        return {
            stage: each[stage] * shard.num_samples + header for stage in encode_stages(self.recipe)
        }

    def metadata(self, format: Format, *, samples: int, shards: int) -> int:
        """What lies beside the finished shards of a format: index, card, empty encodings."""
        if format == "mds":
            return (self._mds_config + MDS_ENTRY) * shards + SMALL_FILES
        if not self.recipe.output.finalize:
            return SMALL_FILES
        latents, text = self._layouts(Bucket(256, 256, 256))
        empty = sum(4 * math.prod(shape) + 128 for _, shape in text.values())
        members = 3 if format == "raw" else len(latents) + len(text) + 2
        per_sample = SQLITE_SAMPLE + SQLITE_MEMBER * members + DIGEST + 8
        empty = 0 if format == "raw" else empty
        return empty + per_sample * samples + 100 * shards + SMALL_FILES

    def facts(self, shards: Sequence[PlannedShard], *, layout: Layout) -> SizeFacts:
        """The whole dataset."""
        rows = [self.rows(shard) for shard in shards]
        output = self.recipe.output
        return SizeFacts(
            outputs=tuple(self._output(name, shards, layout.of(name)) for name in output.formats),
            latents=sum(row.get("encode_latents", 0) for row in rows),
            text=sum(row.get("encode_text", 0) for row in rows),
            kept=keeps_rows(self.recipe),
        )

    def _output(self, format: Format, shards: Sequence[PlannedShard], layout: Layout) -> OutputSize:
        size = sum(self.shard(shard, format=format) for shard in shards)
        samples = sum(shard.num_samples for shard in shards)
        return OutputSize(
            format=format,
            folder=str(layout.output_dir),
            shards=size,
            metadata=self.metadata(format, samples=samples, shards=len(shards)),
            mean_shard=size // max(1, len(shards)),
            pictures=self.pictures[format].tried if format in self.pictures else None,
        )

    @property
    def _mds_config(self) -> int:
        """Bytes of what a shard, and its entry in an index, say of the columns."""
        mds, image_format = self.recipe.mds, self.recipe.output.image_format
        captions = tuple(mds.caption_columns or ())
        columns = MdsColumns(image_format, captions, mds.latents, mds.text_latents, "bfloat16")
        return 8 + len(ShardConfig.of(columns.encodings).json_bytes)

    def _mds_sample(self, bucket: Bucket) -> float:
        """Bytes of a sample; a further caption is taken to be as long as the caption."""
        mds = self.recipe.mds
        further = len(mds.caption_columns or ())
        size = MDS_SAMPLE + MDS_COLUMN * (4 + further) + self.pictures["mds"].bytes_of(bucket)
        size += self._text(self.text.plain) * (1 + further)
        latents, text = self._layouts(bucket)
        if mds.latents:
            # The mean, and the std from logvar: without the scaled mode that tars hold too.
            size += row_bytes({name: latents[name] for name in ("mean", "logvar")}) + 20
        if mds.text_latents:
            size += row_bytes(text) + text["prompt_embeds"][1][0] + 50
        return size

    def _text(self, total: int) -> float:
        return total / max(1, self.samples)

    def _layouts(self, bucket: Bucket) -> tuple[RowLayout, RowLayout]:
        """Tensors of one sample: latents and text, none of what no format holds."""
        if self.encoders is None:
            return {}, {}
        latents = self.encoders.latents_layout(bucket.width, bucket.height)
        return (
            latents if needs_latents(self.recipe) else {},
            self.encoders.text_layout() if needs_text(self.recipe) else {},
        )


def keeps_rows(recipe: Recipe) -> bool:
    """Whether row files stay once shards are finished: only tars give back what they hold."""
    return recipe.output.intermediates == "keep" or "energon" not in recipe.output.formats


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
    """Bytes that are not on disk yet: of row files and of finished shards, and of what is
    published."""

    rows: int
    shards: int
    published: int

    @property
    def peak(self) -> int:
        """Of the work folder at its fullest, while row files give way to finished shards."""
        return max(self.rows, self.shards)


def disk_facts(layout: Layout, to_write: ToWrite, *, kept: bool) -> tuple[DiskFacts, ...]:
    """The filesystems of the work and of the output folder; one entry where they are one.

    Published shards are hard links where that is possible, and take no place of their own then.
    """
    work, output = _existing(layout.folder), _existing(layout.output_dir)
    needed = to_write.rows + to_write.shards if kept else to_write.peak
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


def to_write(sizes: Sizes, shards: Sequence[PlannedShard], made: Made) -> ToWrite:
    """What is still to be written."""
    rows = finished = published = 0
    for shard in shards:
        done = made[shard.shard]
        rows += sum(size for stage, size in sizes.rows(shard).items() if stage not in done)
        for name in sizes.recipe.output.formats:
            size = sizes.shard(shard, format=name)
            finished += 0 if SHARD_STAGE[name] in done else size
            published += size
    return ToWrite(rows, finished, published)
