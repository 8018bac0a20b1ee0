"""A few real batches in a process of their own: how long they take, and how much memory."""

import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from diffprep_assets.encode_latents.worker import LatentsSpec, PictureJob
from diffprep_assets.encode_text.worker import CaptionJob, TextSpec
from diffprep_assets.shard.members import SampleMetadata, sample_members
from diffprep_assets.shard.tar_writer import TarSample, TarWriter
from diffprep_assets.shard_plan.members import members_of_shard
from diffprep_resources.compute.base import Report, Worker, unheard
from diffprep_resources.compute.batches import BatchJob, encode_in_batches
from diffprep_resources.encoders.threads import one_thread_on_cpu
from diffprep_resources.storage.row_file import RowFileWriter, RowLayout

if TYPE_CHECKING:
    import torch

    from diffprep_resources.encoders.base import EncoderFamily

Item = TypeVar("Item")
ProbedStage = Literal["encode_latents", "encode_text", "shard"]
BATCHES = 4
"""Batches that are timed, after one that warms up; fewer where one takes long."""
BUDGET_S = 15.0
TAR_SAMPLES = 64
METADATA = SampleMetadata("images/1.jpg", 999, 999, 512, 512, 99, 99, 999, 999, "0" * 32, "0" * 32)


@dataclass(frozen=True, slots=True)
class ProbeSpec:
    """All that the probe's process needs."""

    latents: LatentsSpec
    text: TextSpec

    @property
    def encoders(self) -> "EncoderFamily":
        return self.latents.encoders

    def build(self) -> "ProbeWorker":
        return ProbeWorker(self)


@dataclass(frozen=True, slots=True)
class ProbeTask:
    """One stage to time, on samples of these shards, each of another bucket."""

    key: ProbedStage
    shards: tuple[str, ...]
    num_samples: int = 0


@dataclass(frozen=True, slots=True)
class TimedBatches:
    """`batches` whole batches of one bucket, of `pixels` a sample; for tars `batches` are bytes."""

    pixels: int
    batches: int
    samples: int
    seconds: float


@dataclass(frozen=True, slots=True)
class StageProbe:
    """What one stage came to. Memory in bytes: of the device, else of this process."""

    load_seconds: float = 0.0
    timed: tuple[TimedBatches, ...] = ()
    batch_size: int = 0
    rejected: int = 0
    peak_memory: int = 0
    memory_total: int | None = None


@dataclass(slots=True)
class ProbeWorker(Worker):
    """Loads one stage's encoders, times them, lets go of them."""

    spec: ProbeSpec
    device: str = "cpu"
    _rejected: int = field(default=0, init=False)

    def setup(self, device: str) -> None:
        one_thread_on_cpu(device)
        self.device = device

    def process(self, task: ProbeTask, report: Report) -> StageProbe:
        self._rejected = 0
        if task.key == "encode_latents":
            return self._latents(task.shards)
        return self._text(task.shards) if task.key == "encode_text" else self._tars(task.shards[0])

    def close(self) -> None:
        """Nothing is held between tasks."""

    def _latents(self, shards: Sequence[str]) -> StageProbe:
        spec, begin = self.spec.latents, time.monotonic()
        encoder = spec.encoders.latents_encoder(self.device)
        load_seconds = time.monotonic() - begin
        timed, held = [], spec.batch_size
        try:
            for shard in shards:
                members = list(enumerate(members_of_shard(spec.layout, shard)))
                bucket = members[0][1].planned.sample.bucket
                shape = (bucket.height, bucket.width, 3)
                with self._rows(encoder.row_layout(*shape[1::-1]), len(members)) as rows:
                    job = PictureJob(spec, encoder, rows, shape=shape)
                    pixels = bucket.width * bucket.height
                    found, size = self._timed(job, members, spec.batch_size, spec.load_threads)
                timed.append(TimedBatches(pixels, *found))
                held = min(held, size)
        finally:
            encoder.close()
        return self._result(load_seconds, timed, held)

    def _text(self, shards: Sequence[str]) -> StageProbe:
        spec, begin = self.spec.text, time.monotonic()
        encoder = spec.encoders.text_encoder(self.device)
        load_seconds = time.monotonic() - begin
        try:
            members = members_of_shard(spec.layout, shards[0])
            captions = [(member.caption, [row]) for row, member in enumerate(members)]
            with self._rows(encoder.row_layout(), len(members)) as rows:
                job = CaptionJob(encoder, rows)
                found, held = self._timed(job, captions, spec.batch_size, 1)
        finally:
            encoder.close()
        return self._result(load_seconds, [TimedBatches(0, *found)], held)

    def _tars(self, shard: str) -> StageProbe:
        """Writes a tar of made-up samples of the shard's size, to its disk."""
        member = members_of_shard(self.spec.latents.layout, shard)[0]
        bucket = member.planned.sample.bucket
        layout = {
            **self.spec.encoders.latents_layout(bucket.width, bucket.height),
            **self.spec.encoders.text_layout(),
        }
        begin, count, size = time.monotonic(), 0, 0
        with tempfile.TemporaryFile(dir=self.spec.latents.layout.folder) as file:
            tar = TarWriter(file)
            while count < TAR_SAMPLES and time.monotonic() - begin < BUDGET_S / 5:
                members = sample_members(
                    _tensors(layout), caption=member.caption, metadata=METADATA
                )
                size += tar.add(TarSample(f"{count:010d}", members)).size
                count += 1
            file.flush()
            os.fsync(file.fileno())
        return self._result(0.0, [TimedBatches(0, size, count, time.monotonic() - begin)], 0)

    @contextmanager
    def _rows(self, rows: RowLayout, num_rows: int) -> Iterator[RowFileWriter]:
        """A row file without a name, on the disk that the real ones go to."""
        with tempfile.TemporaryFile(dir=self.spec.latents.layout.folder) as file:
            yield RowFileWriter(file, rows=rows, num_rows=num_rows, metadata={})

    def _timed(
        self, job: BatchJob[Item, Any], items: list[Item], batch_size: int, load_threads: int
    ) -> tuple[tuple[int, int, float], int]:
        """(batches, samples, seconds) of whole batches, and the batch size that fitted."""

        def encode(count: int) -> tuple[int, float]:
            begin = time.monotonic()
            result = encode_in_batches(
                islice(cycle(items), count * batch_size),
                job,
                batch_size=batch_size,
                load_threads=load_threads,
                report=unheard,
            )
            self._rejected += len(result.rejects)
            return result.batch_size, time.monotonic() - begin

        held, seconds = encode(1)
        batches = min(BATCHES, int(BUDGET_S / max(seconds, 1e-6)))
        if batches:
            held, seconds = encode(batches)
        batches = max(1, batches)
        return (batches, batches * batch_size, seconds), held

    def _result(
        self, load_seconds: float, timed: Sequence[TimedBatches], batch_size: int
    ) -> StageProbe:
        peak, total = peak_memory(self.device)
        return StageProbe(load_seconds, tuple(timed), batch_size, self._rejected, peak, total)


def peak_memory(device: str) -> tuple[int, int | None]:
    """Most bytes held so far, and all there are: of the device, or of this process's machine."""
    kind, torch = device.partition(":")[0], sys.modules.get("torch")
    module = getattr(torch, kind, None) if kind in {"cuda", "xpu"} else None
    if module is not None:
        return module.max_memory_reserved(device), module.mem_get_info(device)[1]
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return held * (1 if sys.platform == "darwin" else 1024), total


def _tensors(layout: RowLayout) -> "dict[str, torch.Tensor]":
    import torch

    make: Callable[..., torch.Tensor] = torch.zeros
    return {name: make(shape, dtype=getattr(torch, dt)) for name, (dt, shape) in layout.items()}
