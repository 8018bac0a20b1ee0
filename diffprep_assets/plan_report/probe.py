"""A few real batches in a process of their own: how long they take, and how much memory."""

import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

from diffprep_assets.encode_clip.worker import ClipSpec
from diffprep_assets.encode_first_frame.worker import FirstFrameSpec
from diffprep_assets.encode_latents.worker import LatentsSpec
from diffprep_assets.encode_text.worker import TextSpec
from diffprep_assets.encode_worker import EncodeWorker
from diffprep_assets.layout import Layout
from diffprep_assets.shard.members import SampleMetadata, sample_members
from diffprep_assets.shard.tar_writer import TarSample, TarWriter
from diffprep_assets.shard_plan.members import members_of_shard
from diffprep_resources.compute.base import Report, Worker, unheard
from diffprep_resources.compute.batches import BatchJob, encode_in_batches
from diffprep_resources.encoders.base import Workload
from diffprep_resources.encoders.families import clip_family
from diffprep_resources.encoders.threads import one_thread_on_cpu
from diffprep_resources.fastvideo.rows import FastVideoRow, write_rows
from diffprep_resources.fastvideo.shapes import tensor_shapes
from diffprep_resources.storage.row_file import RowFileWriter, RowLayout

if TYPE_CHECKING:
    import torch

    from diffprep_resources.encoders.base import EncoderFamily

Item = TypeVar("Item")
ProbedStage = Literal["encode_latents", "encode_text", "encode_first_frame", "encode_clip", "shard"]
StageSpec = LatentsSpec | TextSpec | FirstFrameSpec | ClipSpec
BATCHES = 4
"""Batches that are timed, after one that warms up; fewer where one takes long."""
BUDGET_S = 15.0
TAR_SAMPLES, PARQUET_ROWS = 64, 16
METADATA = SampleMetadata("images/1.jpg", 999, 999, 512, 512, 99, 99, 999, 999, "0" * 32, "0" * 32)


@dataclass(frozen=True, slots=True)
class ProbeSpec:
    """All that the probe's process needs: the specs of the encode stages by name; `workload` is of
    clips, None of pictures."""

    layout: Layout
    encoders: "EncoderFamily"
    encode: Mapping[str, StageSpec]
    workload: Workload | None = None

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
        if task.key != "shard":
            return self._encoded(task.key, task.shards)
        if self.spec.workload is None:
            return self._tars(task.shards[0])
        return self._parquet(task.shards[0], workload=self.spec.workload)

    def close(self) -> None:
        """Nothing is held between tasks."""

    def _encoded(self, stage: str, shards: Sequence[str]) -> StageProbe:
        """The stage's own encoder and jobs, over samples of each of the shards."""
        spec, begin = self.spec.encode[stage], time.monotonic()
        worker = _worker_of(spec)
        worker.setup(self.device)
        load_seconds = time.monotonic() - begin
        timed, held = [], spec.batch_size
        try:
            for shard in shards:
                members = members_of_shard(spec.layout, shard)
                bucket = members[0].planned.sample.bucket
                items = worker.items(members, range(len(members)))
                if not items:
                    continue
                with self._rows(worker.row_layout(bucket), len(members)) as rows:
                    job = worker.job(bucket, rows)
                    found, size = self._timed(job, items, spec.batch_size, spec.load_threads)
                pixels = bucket.width * bucket.height * (bucket.frames or 1)
                timed.append(TimedBatches(pixels, *found))
                held = min(held, size)
        finally:
            worker.close()
        return self._result(load_seconds, timed, held)

    def _tars(self, shard: str) -> StageProbe:
        """Writes a tar of made-up samples of the shard's size, to its disk."""
        member = members_of_shard(self.spec.layout, shard)[0]
        bucket = member.planned.sample.bucket
        layout = {
            **self.spec.encoders.latents_layout(bucket.width, bucket.height),
            **self.spec.encoders.text_layout(),
        }
        begin, count, size = time.monotonic(), 0, 0
        with tempfile.TemporaryFile(dir=self.spec.layout.folder) as file:
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

    def _parquet(self, shard: str, *, workload: Workload) -> StageProbe:
        """The same with FastVideo's rows."""
        member = members_of_shard(self.spec.layout, shard)[0]
        bucket = member.planned.sample.bucket
        family, size = clip_family(self.spec.encoders), (bucket.width, bucket.height)
        shapes = tensor_shapes(
            family, width=size[0], height=size[1], num_frames=bucket.frames, workload=workload
        )
        random = np.random.default_rng(0)
        tensors = {
            name: None if shape is None else random.standard_normal(shape, np.float32)
            for name, shape in shapes.items()
        }
        row = FastVideoRow("0", "0.mp4", member.caption, *size, bucket.frames, 16.0, tensors)
        begin, count = time.monotonic(), 0
        with tempfile.TemporaryDirectory(dir=self.spec.layout.folder) as folder:
            path = Path(folder) / "probe.parquet"
            while count < PARQUET_ROWS and time.monotonic() - begin < BUDGET_S / 5:
                count += write_rows(path, [row], workload=workload)
            seconds = time.monotonic() - begin
        size_bytes = count * sum(tensor.nbytes for tensor in tensors.values() if tensor is not None)
        return self._result(0.0, [TimedBatches(0, size_bytes, count, seconds)], 0)

    @contextmanager
    def _rows(self, rows: RowLayout, num_rows: int) -> Iterator[RowFileWriter]:
        """A row file without a name, on the disk that the real ones go to."""
        with tempfile.TemporaryFile(dir=self.spec.layout.folder) as file:
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


def _worker_of(spec: StageSpec) -> EncodeWorker[Any, Any, Any]:
    return spec.build()


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
