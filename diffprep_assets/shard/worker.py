"""Writes the tar of one shard from its latents and its text."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from diffprep_assets.dataset import Dataset
from diffprep_assets.encode_latents.worker import picture_fingerprint
from diffprep_assets.encode_text.worker import caption_fingerprint
from diffprep_assets.encoded_rows import EncodedRows, encoded_rows, row_path
from diffprep_assets.layout import Layout
from diffprep_assets.partition_worker import (
    PartitionResult,
)
from diffprep_assets.recipe.formats import ENCODE_STAGES, Format
from diffprep_assets.recipe.stage_fields import format_field
from diffprep_assets.shard.commit import new_shard
from diffprep_assets.shard.finished import (
    MadeOf,
    made_shard,
    new_record,
    new_row,
    reject_of,
)
from diffprep_assets.shard.finished_worker import FinishedWorker, ShardTask
from diffprep_assets.shard.members import metadata_of, sample_members
from diffprep_assets.shard.record import SampleRow, ShardReject, mark_bad_keys, read_record
from diffprep_assets.shard.tar_writer import TarSample, TarWriter
from diffprep_assets.shard_plan.members import Member, members_of_shard
from diffprep_assets.stage_inputs import how_to_make
from diffprep_resources.compute.base import Report
from diffprep_resources.errors import StageInputError
from diffprep_resources.storage.row_file import read_header

if TYPE_CHECKING:
    import torch

STAGE = "shard"


@dataclass(frozen=True, slots=True)
class ShardSpec:
    """All that a process needs to write tars. With `prune`, a shard's row files go once its tar is
    whole: what is still wanted of them is read from the tar. Those of a shard with rejects stay."""

    layout: Layout
    latents_settings: dict[str, Any]
    text_settings: dict[str, Any]
    prune: bool

    def build(self) -> "ShardWorker":
        return ShardWorker(self)


class ShardWorker(FinishedWorker[ShardSpec]):
    """Writes tars; needs no device."""

    def write(self, task: ShardTask, report: Report) -> PartitionResult:
        layout = self.spec.layout
        members = [
            _Encoded(
                member,
                picture_fingerprint(member.planned, self.spec.latents_settings),
                caption_fingerprint(member.planned, self.spec.text_settings),
            )
            for member in members_of_shard(layout, task.key)
        ]
        pictures = {encoded.latents for encoded in members}
        captions = {encoded.text for encoded in members}
        with (
            encoded_rows(layout, "encode_latents", shards=[task.key], wanted=pictures) as latents,
            encoded_rows(layout, "encode_text", shards=[task.key], wanted=captions) as text,
            new_shard(layout, task.key) as commit,
        ):
            tar = TarWriter(commit.tar)
            rows, rejects = _write_samples(tar, members, (latents, text), layout, report)
            record = new_record(
                task.planned,
                tar.close(),
                fingerprint=task.fingerprint,
                num_samples=len(rows),
                rejects=rejects,
                made_of=self._made_of(task),
            )
            commit.describe(record, rows)
        # What is left out at one stage has its row of the other stage in the row file alone.
        if self.spec.prune and not record.rejects:
            prune_rows(layout, task.key)
        return made_shard(record, task, made=len(rows))

    def _made_of(self, task: ShardTask) -> MadeOf:
        return MadeOf(
            inputs={**task.encoded, "shard_members": task.planned.members_digest},
            settings={
                "encode_latents": self.spec.latents_settings,
                "encode_text": self.spec.text_settings,
                "shard": format_field("shard"),
            },
            facts={
                "tokens": token_counts(
                    self.spec.layout, task.key, text_fingerprint=task.encoded["encode_text"]
                )
            },
        )


@dataclass(frozen=True, slots=True)
class _Encoded:
    """A member, and the fingerprints that its rows must carry."""

    member: Member
    latents: str
    text: str


def token_counts(layout: Layout, shard: str, *, text_fingerprint: str) -> dict[str, dict[str, int]]:
    """How the shard's captions fit each text encoder, as encode_text counted: from the row file,
    else from the finished shard of the layout's format that took its place."""
    header = read_header(layout.text(shard))
    if header is not None and header.metadata["fingerprint"] == text_fingerprint:
        return header.metadata["tokens"]
    record = read_record(layout.shard_record(shard))
    if record is not None and record.inputs.get("encode_text") == text_fingerprint:
        return record.facts.get("tokens", {})
    return {}


def prune_rows(layout: Layout, shard: str) -> None:
    """Remove the row files of a shard that is whole."""
    for stage in ENCODE_STAGES:
        row_path(layout, stage, shard).unlink(missing_ok=True)


def shard_spec(dataset: Dataset) -> ShardSpec:
    """What the dataset's tars are made with."""
    return ShardSpec(
        dataset.layout.of("energon"),
        dataset.latents_settings,
        dataset.text_settings,
        prune=dataset.recipe.output.intermediates == "prune",
    )


def _write_samples(
    tar: TarWriter,
    members: list[_Encoded],
    sources: tuple[EncodedRows, EncodedRows],
    layout: Layout,
    report: Report,
) -> tuple[list[SampleRow], list[ShardReject]]:
    """Rows of the samples written, and rejects of those that were left out while encoding."""
    latents, text = sources
    rows: list[SampleRow] = []
    rejects: list[ShardReject] = []
    for encoded in members:
        reject = latents.reject(encoded.latents) or text.reject(encoded.text)
        report(1, 1 if reject is not None else 0)
        if reject is not None:
            rejects.append(reject_of(encoded.member.planned, reject))
            continue
        tensors: dict[str, torch.Tensor] = {}
        for stage, source, fingerprint in (
            ("encode_latents", latents, encoded.latents),
            ("encode_text", text, encoded.text),
        ):
            found = source.find(fingerprint)
            if found is None and source.is_damaged(fingerprint):
                raise marked_bad(layout, encoded.member)
            if found is None:
                raise not_encoded(layout, encoded.member, stage)
            tensors |= found
        row = tar.add(_tar_sample(encoded.member, tensors))
        planned = encoded.member.planned
        rows.append(new_row(planned, row, picture=encoded.latents, caption=encoded.text))
    return rows, rejects


def marked_bad(layout: Layout, member: Member, *, format: Format = "energon") -> StageInputError:
    """The finished shard of the format, now marked for the next run, as `validate` does with a
    damaged one."""
    layout = layout.of(format)
    shard, key = member.planned.shard or "", _key(member)
    # The published name may be a link to these very bytes.
    layout.prepared.unlink(missing_ok=True)
    mark_bad_keys(layout.shard_bad(shard), [key])
    return StageInputError(
        f"shard {shard}: the bytes of sample {key} in its tar are damaged; the next "
        f"`diffprep run {layout.dataset}` encodes that sample again"
    )


def _key(member: Member) -> str:
    return member.planned.key


def not_encoded(layout: Layout, member: Member, stage: str) -> StageInputError:
    """What to run for a member without a row."""
    shard = member.planned.shard or ""
    state = "stale" if row_path(layout, stage, shard).exists() else "missing"
    how = how_to_make(layout.dataset, stage, f" --partition {shard}")
    return StageInputError(f"shard {shard}: {stage} is {state}; run {how}")


def _tar_sample(member: Member, tensors: "dict[str, torch.Tensor]") -> TarSample:
    members = sample_members(tensors, caption=member.caption, metadata=metadata_of(member))
    return TarSample(_key(member), members)
