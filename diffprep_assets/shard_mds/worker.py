"""Writes the MDS shard of one plan shard: pictures, captions, and latents where asked for."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

import xxhash

from diffprep_assets.dataset import Dataset
from diffprep_assets.encode_rejects import left_out
from diffprep_assets.layout import Layout
from diffprep_assets.partition_worker import PartitionResult
from diffprep_assets.recipe.formats import image_quality
from diffprep_assets.recipe.mds_columns import IMAGE
from diffprep_assets.shard.commit import new_shard
from diffprep_assets.shard.finished import (
    MadeOf,
    made_shard,
    new_record,
    new_row,
    reject_of,
)
from diffprep_assets.shard.finished_worker import FinishedWorker, ShardTask
from diffprep_assets.shard.record import SampleRow, ShardReject
from diffprep_assets.shard.tar_writer import TarPart, TarRow, TarSummary
from diffprep_assets.shard_mds.captions import further_captions
from diffprep_assets.shard_mds.columns import MdsColumns, sample_values
from diffprep_assets.shard_mds.encoded_columns import (
    EncodedSettings,
    encoded_columns,
    token_counter,
)
from diffprep_assets.shard_plan.members import Member, members_of_shard
from diffprep_assets.shard_raw.member_pictures import MemberPictures, PictureSpec
from diffprep_resources.compute.base import Report
from diffprep_resources.encoders.base import DTYPE_NAMES, EncoderFamily, TokenCounter
from diffprep_resources.encoders.threads import one_thread_on_cpu
from diffprep_resources.mds.layout import ShardConfig
from diffprep_resources.mds.writer import ShardWriter, WrittenSample
from diffprep_resources.pictures.decode import PictureLimits
from diffprep_resources.pictures.stored import StoredForm

STAGE = "shard_mds"


@dataclass(frozen=True, slots=True)
class MdsSpec:
    """All that a process needs to write MDS shards. `layout` is that of the format; `settings` is
    what the fingerprint covers."""

    layout: Layout
    settings: dict[str, Any]
    columns: MdsColumns
    pictures: PictureSpec
    encoded: EncodedSettings
    encoders: EncoderFamily | None

    def build(self) -> "MdsWorker":
        return MdsWorker(self)


class MdsWorker(FinishedWorker[MdsSpec]):
    """Decodes, scales and stores pictures beside what the encoders made; needs no device."""

    def __init__(self, spec: MdsSpec) -> None:
        super().__init__(spec)
        self.tokens: TokenCounter | None = None

    def setup(self, device: str) -> None:
        one_thread_on_cpu("cpu")
        self.tokens = token_counter(self.spec.encoded, self.spec.encoders)

    def write(self, task: ShardTask, report: Report) -> PartitionResult:
        spec, layout, shard = self.spec, self.spec.layout, task.key
        members = members_of_shard(layout, shard)
        without = left_out(layout, shard, task.encoded)
        captions = further_captions(layout, members, spec.columns.captions)
        pictures = MemberPictures(
            layout, spec.pictures, shard=shard, members=members, retry_rejects=task.retry_rejects
        )
        rejects: list[ShardReject] = []
        with (
            encoded_columns(
                layout, spec.encoded, shard=shard, members=members, tokens=self.tokens
            ) as encoded,
            new_shard(layout, shard) as commit,
        ):
            file = _ShardFile(commit.tar, spec, max_samples=len(members))
            for member in members:
                found = without.get(member.planned.sample_id) or pictures.of(member)
                report(1, 0 if isinstance(found, bytes) else 1)
                if not isinstance(found, bytes):
                    rejects.append(reject_of(member.planned, found))
                    continue
                texts = captions[member.planned.sample.source_key]
                file.add(member, {**_values(member, found, texts), **encoded.of(member)})
            summary, rows = file.close()
            record = new_record(
                task.planned,
                summary,
                fingerprint=task.fingerprint,
                num_samples=len(rows),
                rejects=rejects,
                made_of=MadeOf(
                    inputs={**task.encoded, "shard_members": task.planned.members_digest},
                    settings={STAGE: spec.settings},
                ),
            )
            commit.describe(record, rows)
        return made_shard(record, task, made=pictures.made)


class _ShardFile:
    """The shard as it grows, with the rows that are kept beside it. One without samples is no MDS
    shard: its file is empty, and is never published."""

    def __init__(self, file: BinaryIO, spec: MdsSpec, *, max_samples: int) -> None:
        config = ShardConfig.of(spec.columns.encodings)
        self._file = file
        self._pictures = spec.pictures
        self._writer = ShardWriter(file, config=config, max_samples=max_samples)
        self._written: list[tuple[Member, WrittenSample]] = []

    def add(self, member: Member, values: Mapping[str, Any]) -> None:
        self._written.append((member, self._writer.add(values)))

    def close(self) -> tuple[TarSummary, list[SampleRow]]:
        if not self._written:
            self._file.truncate(0)
            return TarSummary(0, 0, xxhash.xxh3_128_hexdigest(b"")), []
        summary = self._writer.close()
        size = summary.size_bytes
        rows = [
            self._row(member, written, start)
            for (member, written), start in zip(self._written, summary.offsets, strict=False)
        ]
        return TarSummary(size, size, summary.digest), rows

    def _row(self, member: Member, written: WrittenSample, start: int) -> SampleRow:
        planned = member.planned
        parts = tuple(TarPart(name, start + offset, size) for name, offset, size in written.parts)
        return new_row(
            planned,
            TarRow(planned.key, start, written.size, written.digest, parts),
            picture=self._pictures.fingerprint(planned),
            caption=planned.sample.caption_digest,
        )


def _values(member: Member, picture: bytes, further: Mapping[str, str]) -> dict[str, Any]:
    sample = member.planned.sample
    bucket = sample.bucket
    return sample_values(
        key=member.planned.key,
        source_key=sample.source_key,
        picture=picture,
        sizes=(bucket.width, bucket.height, member.original_width, member.original_height),
        captions={"caption": member.caption, **further},
    )


def mds_columns(dataset: Dataset) -> MdsColumns:
    """The columns that the recipe asks for."""
    recipe = dataset.recipe
    return MdsColumns(
        image_format=recipe.output.image_format,
        captions=tuple(sorted(recipe.mds.caption_columns or {})),
        latents=recipe.mds.latents,
        text_latents=recipe.mds.text_latents,
        dtype=DTYPE_NAMES[recipe.model.precision],
    )


def mds_spec(dataset: Dataset) -> MdsSpec:
    """What the dataset's MDS shards are made with."""
    recipe = dataset.recipe
    image, mds = recipe.image, recipe.mds
    return MdsSpec(
        layout=dataset.layout.of("mds"),
        settings=dataset.mds_settings,
        columns=mds_columns(dataset),
        pictures=PictureSpec(
            STAGE,
            IMAGE,
            dataset.source,
            StoredForm(recipe.output.image_format, image_quality(recipe, "mds")),
            PictureLimits(max_pixels=image.max_pixels, min_side=image.min_side),
            image.background,
        ),
        encoded=EncodedSettings(
            latents=dataset.latents_settings if mds.latents else None,
            text=dataset.text_settings if mds.text_latents else None,
        ),
        encoders=dataset.encoders if mds.text_latents else None,
    )
