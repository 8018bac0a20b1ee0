"""What the encode stages' workers share: one shard's members become the rows of one file."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np

from diffprep_assets.encoded_rows import row_path
from diffprep_assets.encoded_shard import (
    encoded_result,
    finish_broken_commit,
    finished_rows,
    reject_row,
    shard_metadata,
    taken_over,
)
from diffprep_assets.layout import Layout
from diffprep_assets.partition_worker import PartitionResult, PartitionTask, PartitionWorker
from diffprep_assets.shard_plan.members import Member, members_of_shard
from diffprep_assets.shard_plan.plan import Bucket, PlannedSample
from diffprep_resources.compute.base import Report
from diffprep_resources.compute.batches import BatchJob, encode_in_batches
from diffprep_resources.compute.memory import memory_peak
from diffprep_resources.encoders.base import RowLayout
from diffprep_resources.encoders.threads import one_thread_on_cpu
from diffprep_resources.storage.row_file import RowFileWriter, row_file

if TYPE_CHECKING:
    import torch


class Closing(Protocol):
    """An encoder, whatever it encodes."""

    def close(self) -> None: ...


class EncodeSpec(Protocol):
    """What every encode stage's spec has. `settings` is what the fingerprint covers."""

    @property
    def layout(self) -> Layout: ...
    @property
    def settings(self) -> dict[str, Any]: ...
    @property
    def batch_size(self) -> int: ...
    @property
    def load_threads(self) -> int: ...


SpecT = TypeVar("SpecT", bound=EncodeSpec)
EncoderT = TypeVar("EncoderT", bound=Closing)
Item = TypeVar("Item")
Loaded = TypeVar("Loaded")
Numbered = tuple[int, Member]


class RowsJob(BatchJob[Item, Loaded]):
    """A job whose rows go into a row file."""

    def __init__(self, rows: RowFileWriter) -> None:
        self.rows = rows

    @abstractmethod
    def numbers(self, item: Item) -> Sequence[int]:
        """The rows that an item fills."""

    def write(self, item: Item, row: "dict[str, torch.Tensor]") -> None:
        for name, tensor in row.items():
            for number in self.numbers(item):
                self.rows.write_tensor(name, number, tensor)


class MembersJob(RowsJob[Numbered, np.ndarray]):
    """Items are members, each with the number of its row."""

    def numbers(self, item: Numbered) -> Sequence[int]:
        return (item[0],)


class EncodeWorker(PartitionWorker, Generic[SpecT, EncoderT, Item]):
    """One stage's encoder on one device."""

    stage: ClassVar[str]

    def __init__(self, spec: SpecT) -> None:
        self.spec = spec
        self.device = "cpu"
        self._encoder: EncoderT | None = None

    @property
    def encoder(self) -> EncoderT:
        if self._encoder is None:
            raise RuntimeError("setup was not called")
        return self._encoder

    @abstractmethod
    def load(self, device: str) -> EncoderT:
        """The encoder, its weights on the device. Raises ModelError."""

    @abstractmethod
    def row_layout(self, bucket: Bucket) -> RowLayout:
        """The tensors of one sample of the bucket."""

    @abstractmethod
    def fingerprint(self, planned: PlannedSample) -> str:
        """What decides the sample's row."""

    @abstractmethod
    def job(self, bucket: Bucket, rows: RowFileWriter) -> RowsJob[Item, Any]:
        """How items of the bucket are loaded and encoded into `rows`."""

    @abstractmethod
    def items(self, members: Sequence[Member], rest: Sequence[int]) -> list[Item]:
        """What goes through the encoder for the members with the numbers `rest`."""

    def told(self, members: Sequence[Member]) -> dict[str, Any]:
        """What the row file says of its members besides."""
        return {}

    def facts(self, told: Mapping[str, Any], encoded: int) -> dict[str, int]:
        """Numbers for people; `encoded` items went through the encoder."""
        return {}

    def setup(self, device: str) -> None:
        one_thread_on_cpu(device)
        self.device = device
        self._encoder = self.load(device)

    def lock(self, task: PartitionTask) -> Path:
        return self.spec.layout.partition_lock(self.stage, task.key)

    def finished(self, task: PartitionTask) -> PartitionResult | None:
        finish_broken_commit(self.spec.layout, task.key)
        return finished_rows(self.spec.layout, self.stage, task)

    def make(self, task: PartitionTask, report: Report) -> PartitionResult:
        spec, path = self.spec, row_path(self.spec.layout, self.stage, task.key)
        members = members_of_shard(spec.layout, task.key)
        fingerprints = [self.fingerprint(member.planned) for member in members]
        metadata = shard_metadata(task, members, settings=spec.settings, fingerprints=fingerprints)
        told = self.told(members)
        bucket = members[0].planned.sample.bucket
        layout = self.row_layout(bucket)
        with row_file(path, rows=layout, num_rows=len(members), metadata=metadata | told) as rows:
            taken = taken_over(
                self.stage,
                spec.layout,
                members,
                fingerprints=fingerprints,
                rows=rows,
                retry_rejects=task.retry_rejects,
            )
            items, job = self.items(members, taken.rest), self.job(bucket, rows)
            report(len(members) - len(items), len(taken.rejects))
            result = encode_in_batches(
                items,
                job,
                batch_size=spec.batch_size,
                load_threads=spec.load_threads,
                report=report,
            )
            left_out = [
                reject_row(self.stage, members[number], reject, fingerprint=fingerprints[number])
                for item, reject in result.rejects
                for number in job.numbers(item)
            ]
            rejects = taken.rejects + left_out
            rows.close(rejects=rejects)
        encoded = sum(len(job.numbers(item)) for item in items) - len(left_out)
        facts = {"batch_size": result.batch_size, "memory_peak_bytes": memory_peak(self.device)}
        facts |= self.facts(told, result.encoded)
        return encoded_result(path, task, encoded=encoded, rejects=rejects, facts=facts)

    def close(self) -> None:
        if self._encoder is not None:
            self._encoder.close()
            self._encoder = None


class MembersWorker(EncodeWorker[SpecT, EncoderT, Numbered]):
    """A stage that encodes each member by itself."""

    def items(self, members: Sequence[Member], rest: Sequence[int]) -> list[Numbered]:
        return [(number, members[number]) for number in rest]
