"""Bytes of a dataset of clips, from the encoders' row layouts. Nothing is encoded."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from diffprep_assets.layout import Layout
from diffprep_assets.plan_report.facts import SizeFacts
from diffprep_assets.plan_report.sizes import (
    DIGEST,
    ROW_HEADER,
    SMALL_FILES,
    SQLITE_MEMBER,
    SQLITE_SAMPLE,
    Sizes,
    row_bytes,
)
from diffprep_assets.recipe.formats import Format, encode_stages
from diffprep_assets.shard.tar_writer import BLOCK, RECORD
from diffprep_assets.shard_plan.plan import Bucket, PlannedShard
from diffprep_resources.encoders.families import clip_family
from diffprep_resources.storage.row_file import RowLayout

# Of a row in FastVideo's files: what parquet says of its columns; of a tensor in a tar: what
# torch.save adds.
FASTVIDEO_ROW, SAVED_TENSOR = 6_000, 1_200
BF16_BYTES = 2


@dataclass(frozen=True, slots=True)
class ClipSizes(Sizes):
    """Sizes of this dataset's files; `tokens` are those of a usual caption, since FastVideo's files
    hold no padding. Compression is left aside: zstd takes a few percent off such numbers."""

    tokens: int = 0

    def shard(self, shard: PlannedShard, *, format: Format) -> int:
        """One finished shard."""
        layouts = self._stage_layouts(shard.bucket)
        text = self._text(self.text.plain)
        if format == "fastvideo":
            tensors = sum(row_bytes(one) for name, one in layouts.items() if name != "encode_text")
            sample = FASTVIDEO_ROW + text + tensors + self._token_bytes(layouts) * self.tokens
            return round(shard.num_samples * sample)
        shapes = [
            shape for one in layouts.values() for kind, shape in one.values() if kind != "int32"
        ]
        tensors = sum(BF16_BYTES * math.prod(shape) + SAVED_TENSOR + BLOCK for shape in shapes)
        content = round(shard.num_samples * (tensors + text + 4 * BLOCK)) + 2 * BLOCK
        return -(-content // RECORD) * RECORD

    def rows(self, shard: PlannedShard) -> dict[str, int]:
        """One shard's row files, by the stage that writes them; captions take no place for their
        padding."""
        header = 1000 + ROW_HEADER * shard.num_samples
        layouts = self._stage_layouts(shard.bucket)
        each = {stage: row_bytes(layout) for stage, layout in layouts.items()}
        each["encode_text"] = self._token_bytes(layouts) * self.tokens
        return {stage: size * shard.num_samples + header for stage, size in each.items()}

    def metadata(self, format: Format, *, samples: int, shards: int) -> int:
        """What lies beside the finished shards of a format."""
        if format == "fastvideo" or not self.recipe.output.finalize:
            return SMALL_FILES
        members = len(self._stage_layouts(Bucket(256, 256, 256, 5))) + 2
        per_sample = SQLITE_SAMPLE + SQLITE_MEMBER * members + DIGEST + 8
        return per_sample * samples + 100 * shards + SMALL_FILES

    def facts(self, shards: Sequence[PlannedShard], *, layout: Layout) -> SizeFacts:
        """The whole dataset."""
        rows = [self.rows(shard) for shard in shards]
        output = self.recipe.output
        of_frame = ("encode_first_frame", "encode_clip")
        return SizeFacts(
            outputs=tuple(self._output(name, shards, layout.of(name)) for name in output.formats),
            latents=sum(row["encode_latents"] for row in rows),
            text=sum(row["encode_text"] for row in rows),
            kept=output.intermediates == "keep",
            first_frames=sum(row.get(stage, 0) for row in rows for stage in of_frame),
        )

    def _stage_layouts(self, bucket: Bucket) -> Mapping[str, RowLayout]:
        """Tensors of one sample by encode stage."""
        if self.encoders is None:
            return {}
        family, size = clip_family(self.encoders), (bucket.width, bucket.height)
        layouts: dict[str, RowLayout] = {
            "encode_latents": family.latents_layout(*size, num_frames=bucket.frames),
            "encode_text": family.text_layout(),
        }
        if "encode_first_frame" in encode_stages(self.recipe):
            frame: RowLayout = {"pil_image": ("float32", (3, bucket.height, bucket.width))}
            latents = family.first_frame_layout(*size, num_frames=bucket.frames)
            has_features = family.has_image_features
            layouts["encode_first_frame"] = {**latents, **frame}
            layouts["encode_clip"] = (
                family.image_layout(*size, num_frames=bucket.frames) if has_features else {}
            )
        return layouts

    @staticmethod
    def _token_bytes(layouts: Mapping[str, RowLayout]) -> int:
        kind, (_, width) = layouts["encode_text"]["prompt_embeds"]
        return row_bytes({"prompt_embeds": (kind, (1, width))})
