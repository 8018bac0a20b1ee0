"""Writes the parquet files of one shard from what the encode stages made of its clips."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import xxhash

from diffprep_assets.dataset import Dataset
from diffprep_assets.encoded_members import EncodedMember, EncodedMembers, encoded_members
from diffprep_assets.layout import Layout
from diffprep_assets.partition_worker import PartitionResult, PartitionTask
from diffprep_assets.recipe.formats import encode_stages
from diffprep_assets.shard.commit import new_shard
from diffprep_assets.shard.finished import (
    MadeOf,
    clip_row,
    made_shard,
    new_record,
    reject_of,
)
from diffprep_assets.shard.finished_worker import FinishedWorker, ShardTask
from diffprep_assets.shard.record import ShardReject
from diffprep_assets.shard.tar_writer import TarSummary
from diffprep_assets.shard.worker import prune_rows, token_counts
from diffprep_assets.shard_fastvideo.chunks import write_chunks
from diffprep_assets.shard_fastvideo.files import ChunkFile, files_bytes, remove_unlisted
from diffprep_assets.shard_fastvideo.stored import STORED_NAMES
from diffprep_resources.compute.base import Report
from diffprep_resources.encoders.base import Workload
from diffprep_resources.errors import SettingError
from diffprep_resources.fastvideo.rows import FastVideoRow
from diffprep_resources.fastvideo.schema import MAY_BE_EMPTY, tensor_names

STAGE = "shard"


@dataclass(frozen=True, slots=True)
class FastVideoSpec:
    """All that a process needs to write FastVideo's files. `layout` is that of the format,
    `encoded` the settings of every encode stage and `settings` those of this one. With `prune`, a
    shard's row files go once it is whole, but for those of a shard with rejects."""

    layout: Layout
    settings: dict[str, Any]
    encoded: Mapping[str, dict[str, Any]]
    workload: Workload
    train_fps: float
    samples_per_file: int
    prune: bool

    def build(self) -> "FastVideoWorker":
        return FastVideoWorker(self)


class FastVideoWorker(FinishedWorker[FastVideoSpec]):
    """Writes parquet files; needs no device."""

    def finished(self, task: PartitionTask) -> PartitionResult | None:
        found = super().finished(task)
        remove_unlisted(self.spec.layout, task.key)
        return found

    def write(self, task: ShardTask, report: Report) -> PartitionResult:
        spec, layout, shard = self.spec, self.spec.layout, task.key
        with (
            encoded_members(layout, shard, settings=spec.encoded) as encoded,
            new_shard(layout, shard) as commit,
        ):
            kept, rejects = _sorted_out(encoded, report)

            def row_of(member: EncodedMember) -> FastVideoRow:
                report(1, 0)
                return _row(spec, encoded, member)

            written = write_chunks(
                layout.shard_folder(shard),
                kept,
                row_of,
                workload=spec.workload,
                samples_per_file=spec.samples_per_file,
            )
            record = new_record(
                task.planned,
                _summary(written.files),
                fingerprint=task.fingerprint,
                num_samples=len(kept),
                rejects=rejects,
                made_of=self._made_of(task),
            )
            commit.tar.write(files_bytes(written.files))
            rows = [
                clip_row(one.member.planned, row, one.fingerprints) for one, row in written.rows
            ]
            commit.describe(record, rows)
        remove_unlisted(layout, shard)
        # What is left out at one stage has its rows of the others in their row files alone.
        if spec.prune and not record.rejects:
            prune_rows(layout, shard)
        return made_shard(record, task, made=len(kept))

    def _made_of(self, task: ShardTask) -> MadeOf:
        text = task.encoded["encode_text"]
        tokens = token_counts(self.spec.layout, task.key, text_fingerprint=text)
        return MadeOf(
            inputs={**task.encoded, "shard_members": task.planned.members_digest},
            settings={**self.spec.encoded, STAGE: self.spec.settings},
            facts={"tokens": tokens},
        )


def _sorted_out(
    encoded: EncodedMembers, report: Report
) -> tuple[list[EncodedMember], list[ShardReject]]:
    """Who gets a row, and the first reject of each of the others."""
    kept: list[EncodedMember] = []
    rejects: list[ShardReject] = []
    for member in encoded.members:
        reject = encoded.reject(member)
        if reject is None:
            kept.append(member)
        else:
            rejects.append(reject_of(member.member.planned, reject))
            report(1, 1)
    return kept, rejects


def _row(spec: FastVideoSpec, encoded: EncodedMembers, member: EncodedMember) -> FastVideoRow:
    planned = member.member.planned
    bucket = planned.sample.bucket
    return FastVideoRow(
        id=planned.key,
        file_name=PurePosixPath(planned.sample.source_key).name,
        caption=member.member.caption,
        width=bucket.width,
        height=bucket.height,
        num_frames=bucket.frames,
        fps=spec.train_fps,
        tensors=_tensors(spec, encoded, member),
    )


def _tensors(
    spec: FastVideoSpec, encoded: EncodedMembers, member: EncodedMember
) -> dict[str, np.ndarray | None]:
    """By FastVideo's names. Those that it lets be empty are None where no stage makes them."""
    tensors: dict[str, np.ndarray | None] = {
        name: None for name in tensor_names(spec.workload) if name in MAY_BE_EMPTY
    }
    for stage in spec.encoded:
        found = encoded.tensors(member, stage)
        if stage == "encode_text":
            found = {"prompt_embeds": found["prompt_embeds"][: int(found["prompt_length"])]}
        for ours, theirs in STORED_NAMES[stage].items():
            if ours in found:
                tensors[theirs] = found[ours].float().numpy()
    return tensors


def _summary(files: tuple[ChunkFile, ...]) -> TarSummary:
    """Bytes of the parquet files together, and the digest of their list, which names theirs."""
    size = sum(file.size_bytes for file in files)
    return TarSummary(size, size, xxhash.xxh3_128_hexdigest(files_bytes(files)))


def fastvideo_spec(dataset: Dataset) -> FastVideoSpec:
    """What the dataset's FastVideo shards are made with. Raises SettingError for a recipe that is
    not of clips."""
    video = dataset.recipe.video
    if video is None:
        raise SettingError("FastVideo's files are made of clips: the recipe has no section `video`")
    return FastVideoSpec(
        layout=dataset.layout.of("fastvideo"),
        settings=dataset.settings_of(STAGE),
        encoded={stage: dataset.encode_settings(stage) for stage in encode_stages(dataset.recipe)},
        workload=video.workload,
        train_fps=float(video.train_fps),
        samples_per_file=video.samples_per_file,
        prune=dataset.recipe.output.intermediates == "prune",
    )
