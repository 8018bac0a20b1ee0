"""Writes the tar of one shard of clips from what the encode stages made of them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from diffprep_assets.dataset import Dataset
from diffprep_assets.encoded_members import EncodedMember, EncodedMembers, encoded_members
from diffprep_assets.layout import Layout
from diffprep_assets.partition_worker import PartitionResult
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
from diffprep_assets.shard.members import tensor_bytes
from diffprep_assets.shard.record import FINGERPRINT_COLUMNS, SampleRow, ShardReject
from diffprep_assets.shard.stored_members import StoredMembers
from diffprep_assets.shard.tar_writer import TarSample, TarWriter
from diffprep_assets.shard.worker import token_counts
from diffprep_assets.shard_energon_video.members import MEMBERS_OF, clip_members, clip_metadata
from diffprep_resources.compute.base import Report
from diffprep_resources.encoders.base import ClipEncoderFamily
from diffprep_resources.encoders.latents_statistics import LatentsStatistics
from diffprep_resources.encoders.threads import one_thread_on_cpu
from diffprep_resources.errors import SettingError

if TYPE_CHECKING:
    import torch

STAGE = "shard_energon_video"


@dataclass(frozen=True, slots=True)
class EnergonVideoSpec:
    """All that a process needs to write tars of clips. `layout` is that of the format, `settings`
    what its fingerprint covers, `encoded` the settings of every encode stage."""

    layout: Layout
    settings: dict[str, Any]
    encoded: Mapping[str, dict[str, Any]]
    statistics: LatentsStatistics
    fps: float

    def build(self) -> "EnergonVideoWorker":
        return EnergonVideoWorker(self)


class EnergonVideoWorker(FinishedWorker[EnergonVideoSpec]):
    """Writes tars; needs no device."""

    def setup(self, device: str) -> None:
        one_thread_on_cpu("cpu")

    def write(self, task: ShardTask, report: Report) -> PartitionResult:
        spec, layout = self.spec, self.spec.layout
        rows: list[SampleRow] = []
        rejects: list[ShardReject] = []
        with (
            encoded_members(layout, task.key, settings=spec.encoded) as encoded,
            new_shard(layout, task.key) as commit,
        ):
            tar, clips = TarWriter(commit.tar), _Clips(spec, encoded, shard=task.key)
            for one in encoded.members:
                reject = encoded.reject(one)
                report(1, 0 if reject is None else 1)
                if reject is None:
                    rows.append(
                        clip_row(one.member.planned, tar.add(clips.sample(one)), one.fingerprints)
                    )
                else:
                    rejects.append(reject_of(one.member.planned, reject))
            record = new_record(
                task.planned,
                tar.close(),
                fingerprint=task.fingerprint,
                num_samples=len(rows),
                rejects=rejects,
                made_of=self._made_of(task),
            )
            commit.describe(record, rows)
        return made_shard(record, task, made=clips.made)

    def _made_of(self, task: ShardTask) -> MadeOf:
        layout, text = self.spec.layout, task.encoded["encode_text"]
        # Where the row files are gone, the files of the other format took their place.
        tokens = token_counts(layout, task.key, text_fingerprint=text) or token_counts(
            layout.of("fastvideo"), task.key, text_fingerprint=text
        )
        return MadeOf(
            inputs={**task.encoded, "shard_members": task.planned.members_digest},
            settings={**self.spec.encoded, STAGE: self.spec.settings},
            facts={"tokens": tokens},
        )


class _Clips:
    """The samples of a shard: members out of its older tars where what they were made from is the
    same, else out of the encoded rows; `made` counts the samples that needed any of those."""

    def __init__(self, spec: EnergonVideoSpec, encoded: EncodedMembers, *, shard: str) -> None:
        self._spec = spec
        self._encoded = encoded
        former = {old for one in encoded.members for old in one.member.planned.former}
        self._stored = {
            stage: StoredMembers(
                spec.layout,
                stage=STAGE,
                shards=[shard, *sorted(former)],
                wanted=[one.fingerprints[stage] for one in encoded.members],
                column=FINGERPRINT_COLUMNS[stage],
            )
            for stage in spec.encoded
        }
        self.made = 0

    def sample(self, one: EncodedMember) -> TarSample:
        """Raises StageInputError where a row is missing or damaged."""
        tensors: dict[str, bytes] = {}
        text_length, is_new = 0, False
        for stage in self._spec.encoded:
            stored = self._stored[stage].find(one.fingerprints[stage])
            if stored is None:
                is_new = True
                row = self._encoded.tensors(one, stage)
                tensors |= stored_tensors(row, statistics=self._spec.statistics)
                text_length += int(row.get("prompt_length", 0))
            else:
                tensors |= {name: stored[name] for name in MEMBERS_OF[stage] if name in stored}
                told = json.loads(stored["json"])["text_length"] if stage == "encode_text" else 0
                text_length += told
        self.made += is_new
        metadata = clip_metadata(one.member, fps=self._spec.fps, text_length=text_length)
        members = clip_members(tensors, caption=one.member.caption, metadata=metadata)
        return TarSample(one.member.planned.key, members)


def stored_tensors(
    row: "Mapping[str, torch.Tensor]", *, statistics: LatentsStatistics
) -> dict[str, bytes]:
    """The tensors of an encoded row as members: bf16, latents normalised; those of the first frame
    are already."""
    import torch

    tensors = {}
    for names in MEMBERS_OF.values():
        for name in (name.removesuffix(".pth") for name in names):
            if name in row:
                tensors[name] = row[name]
    if "latents" in tensors:
        tensors["latents"] = torch.from_numpy(statistics.normalised(tensors["latents"].numpy()))
    return {
        f"{name}.pth": tensor_bytes(tensor.to(torch.bfloat16)) for name, tensor in tensors.items()
    }


def energon_video_spec(dataset: Dataset) -> EnergonVideoSpec:
    """What the dataset's tars of clips are made with. Raises SettingError for a recipe that is not
    of clips."""
    video, family = dataset.recipe.video, dataset.encoders
    if video is None or not isinstance(family, ClipEncoderFamily):
        raise SettingError("energon_video is made of clips: the recipe needs a section `video`")
    return EnergonVideoSpec(
        layout=dataset.layout.of("energon_video"),
        settings=dataset.settings_of(STAGE),
        encoded={stage: dataset.encode_settings(stage) for stage in encode_stages(dataset.recipe)},
        statistics=LatentsStatistics(*family.latents_statistics),
        fps=float(video.train_fps),
    )
