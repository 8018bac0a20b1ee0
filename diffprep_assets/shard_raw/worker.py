"""Writes the raw tar of one shard: pictures at their bucket's size, captions, metadata."""

from dataclasses import dataclass
from typing import Any

from diffprep_assets.dataset import Dataset
from diffprep_assets.encode_rejects import left_out
from diffprep_assets.layout import Layout
from diffprep_assets.partition_worker import PartitionResult
from diffprep_assets.recipe.formats import image_quality
from diffprep_assets.shard.commit import new_shard
from diffprep_assets.shard.finished import (
    MadeOf,
    made_shard,
    new_record,
    new_row,
    reject_of,
)
from diffprep_assets.shard.finished_worker import FinishedWorker, ShardTask
from diffprep_assets.shard.members import metadata_of, raw_members
from diffprep_assets.shard.record import SampleRow, ShardReject
from diffprep_assets.shard.tar_writer import TarSample, TarWriter
from diffprep_assets.shard_plan.members import Member, members_of_shard
from diffprep_assets.shard_raw.member_pictures import MemberPictures, PictureSpec
from diffprep_resources.compute.base import Report
from diffprep_resources.encoders.threads import one_thread_on_cpu
from diffprep_resources.pictures.decode import PictureLimits
from diffprep_resources.pictures.stored import StoredForm

STAGE = "shard_raw"


@dataclass(frozen=True, slots=True)
class RawSpec:
    """All that a process needs to write raw tars. `layout` is that of the format; `settings` is
    what the fingerprint covers."""

    layout: Layout
    settings: dict[str, Any]
    pictures: PictureSpec

    def build(self) -> "RawWorker":
        return RawWorker(self)


class RawWorker(FinishedWorker[RawSpec]):
    """Decodes, scales and stores pictures; needs no device and no encoder."""

    def setup(self, device: str) -> None:
        one_thread_on_cpu("cpu")

    def write(self, task: ShardTask, report: Report) -> PartitionResult:
        layout, members = self.spec.layout, members_of_shard(self.spec.layout, task.key)
        without = left_out(layout, task.key, task.encoded)
        pictures = MemberPictures(
            layout,
            self.spec.pictures,
            shard=task.key,
            members=members,
            retry_rejects=task.retry_rejects,
        )
        rows: list[SampleRow] = []
        rejects: list[ShardReject] = []
        with new_shard(layout, task.key) as commit:
            tar = TarWriter(commit.tar)
            for member in members:
                planned = member.planned
                found = without.get(planned.sample_id) or pictures.of(member)
                report(1, 0 if isinstance(found, bytes) else 1)
                if isinstance(found, bytes):
                    rows.append(self._written(tar, member, found))
                else:
                    rejects.append(reject_of(planned, found))
            record = new_record(
                task.planned,
                tar.close(),
                fingerprint=task.fingerprint,
                num_samples=len(rows),
                rejects=rejects,
                made_of=MadeOf(
                    inputs={"shard_members": task.planned.members_digest},
                    settings={STAGE: self.spec.settings},
                ),
            )
            commit.describe(record, rows)
        return made_shard(record, task, made=pictures.made)

    def _written(self, tar: TarWriter, member: Member, picture: bytes) -> SampleRow:
        planned = member.planned
        members = raw_members(
            picture,
            image_format=self.spec.pictures.form.image_format,
            caption=member.caption,
            metadata=metadata_of(member),
        )
        row = tar.add(TarSample(planned.key, members))
        return new_row(
            planned,
            row,
            picture=self.spec.pictures.fingerprint(planned),
            caption=planned.sample.caption_digest,
        )


def raw_spec(dataset: Dataset) -> RawSpec:
    """What the dataset's raw tars are made with."""
    recipe = dataset.recipe
    image = recipe.image
    return RawSpec(
        layout=dataset.layout.of("raw"),
        settings=dataset.raw_settings,
        pictures=PictureSpec(
            stage=STAGE,
            member=recipe.output.image_format,
            source=dataset.source,
            form=StoredForm(recipe.output.image_format, image_quality(recipe, "raw")),
            limits=PictureLimits(max_pixels=image.max_pixels, min_side=image.min_side),
            background=image.background,
        ),
    )
