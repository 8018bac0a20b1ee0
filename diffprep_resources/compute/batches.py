"""One shard's samples through an encoder, in padded batches, with three things overlapping.

Threads load the next samples while the device encodes a batch and a thread writes the one before.
Memory is bounded by a few batches. A short batch is padded to the batch size with blank samples,
since a VAE's last bits depend on the batch size (DESIGN 8), never on slot or neighbours.
"""

import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Generic, TypeVar

from diffprep_resources.compute.base import Report
from diffprep_resources.errors import DiffprepError, SampleReject

if TYPE_CHECKING:
    import torch

logger = logging.getLogger(__name__)

Item = TypeVar("Item")
Loaded = TypeVar("Loaded")
Rows = dict[str, "torch.Tensor"]

LOADED_BATCHES_AHEAD = 2
WRITES_AHEAD = 2


class BatchJob(ABC, Generic[Item, Loaded]):
    """What differs between pictures and captions. `load` and `write` run in threads."""

    @abstractmethod
    def load(self, item: Item) -> Loaded:
        """The encoder's input for one item. Raises SampleReject to leave it out."""

    @abstractmethod
    def blank(self) -> Loaded:
        """An input that pads a batch; its row is thrown away."""

    @abstractmethod
    def encode(self, items: Sequence[Item | None], batch: list[Loaded], *, float32: bool) -> Rows:
        """Rows [batch, ...] on the CPU, stored dtype; an item is None where the input is blank."""

    @abstractmethod
    def write(self, item: Item, row: Rows) -> None:
        """Keep one item's row."""


@dataclass(slots=True)
class BatchResult(Generic[Item]):
    """How a shard went: items left out, and the batch size that the device could hold."""

    batch_size: int
    encoded: int = 0
    rejects: list[tuple[Item, SampleReject]] = field(default_factory=list)


class _Batches(Generic[Item, Loaded]):
    def __init__(
        self,
        job: BatchJob[Item, Loaded],
        *,
        batch_size: int,
        writer: ThreadPoolExecutor,
        report: Report,
    ) -> None:
        self.job = job
        self.writer = writer
        self.report = report
        self.result: BatchResult[Item] = BatchResult(batch_size)
        self.writes: deque[Future[None]] = deque()

    def encode(self, items: list[Item], loaded: list[Loaded]) -> None:
        """Encode one batch or, after running out of memory, its halves."""
        size = self.result.batch_size
        while items:
            now, batch = items[:size], loaded[:size]
            try:
                self._encode_at(now, batch, size)
            except Exception as error:
                if not is_out_of_memory(error) or size == 1:
                    raise
                release_device_memory()
                size = self.result.batch_size = size // 2
                logger.warning("out of memory: batch size is now %d", size)
                continue
            items, loaded = items[size:], loaded[size:]

    def _encode_at(self, items: list[Item], batch: list[Loaded], size: int) -> None:
        slots = [*items, *[None] * (size - len(items))]
        inputs = [*batch, *[self.job.blank() for _ in range(size - len(batch))]]
        try:
            encoded = self._encoded(slots, inputs)
        except DiffprepError:
            raise
        except Exception as error:
            if is_out_of_memory(error):
                raise
            self._encode_one_by_one(slots, inputs)
            return
        # Outside: an error of the writer may be an earlier batch's, and is no sample's fault.
        self._keep(slots, encoded)

    def _encode_one_by_one(self, slots: list[Item | None], inputs: list[Loaded]) -> None:
        """Find the item that makes the encoder raise: the same size, every other slot blank."""
        for slot, item in enumerate(slots):
            if item is None:
                continue
            alone: list[Item | None] = [None] * len(slots)
            alone[slot] = item
            batch = [self.job.blank() for _ in slots]
            batch[slot] = inputs[slot]
            try:
                encoded = self._encoded(alone, batch)
            except Exception as error:
                if is_out_of_memory(error):
                    raise
                words = f"{type(error).__name__}: {error}"
                self._reject(item, SampleReject("encoder_failed", words, transient=True))
                self.report(1, 1)
                continue
            self._keep(alone, encoded)

    def _encoded(self, slots: list[Item | None], inputs: list[Loaded]) -> tuple[Rows, Rows]:
        """Rows as stored, and those in float32 where a row is not finite (else none)."""
        rows = self.job.encode(slots, inputs, float32=False)
        used = [slot for slot, item in enumerate(slots) if item is not None]
        if all(is_finite(rows, slot) for slot in used):
            return rows, {}
        return rows, self.job.encode(slots, inputs, float32=True)

    def _keep(self, slots: list[Item | None], encoded: tuple[Rows, Rows]) -> None:
        rows, again = encoded
        used = [(slot, item) for slot, item in enumerate(slots) if item is not None]
        bad = {slot for slot, _ in used if again and not is_finite(rows, slot)}
        rejected = 0
        for slot, item in used:
            source = again if slot in bad else rows
            if slot in bad and not is_finite(again, slot):
                words = "encoding is not finite, in float32 too"
                self._reject(item, SampleReject("non_finite", words))
                rejected += 1
            else:
                self._write(item, {name: tensor[slot] for name, tensor in source.items()})
        self.report(len(used), rejected)

    def _reject(self, item: Item, reject: SampleReject) -> None:
        self.result.rejects.append((item, reject))

    def _write(self, item: Item, row: Rows) -> None:
        self.result.encoded += 1
        self.writes.append(self.writer.submit(self.job.write, item, row))
        while len(self.writes) > WRITES_AHEAD * self.result.batch_size:
            self.writes.popleft().result()

    def finish(self) -> None:
        while self.writes:
            self.writes.popleft().result()


def encode_in_batches(
    items: Iterable[Item],
    job: BatchJob[Item, Loaded],
    *,
    batch_size: int,
    load_threads: int,
    report: Report,
) -> BatchResult[Item]:
    """Every item encoded and written, or among the result's rejects."""
    with (
        ThreadPoolExecutor(load_threads, thread_name_prefix="load") as loaders,
        ThreadPoolExecutor(1, thread_name_prefix="write") as writer,
    ):
        batches = _Batches(job, batch_size=batch_size, writer=writer, report=report)
        ahead = LOADED_BATCHES_AHEAD * batch_size
        items_now: list[Item] = []
        loaded_now: list[Loaded] = []
        for item, future in _loaded(items, job.load, loaders, ahead=ahead):
            try:
                loaded_now.append(future.result())
            except SampleReject as reject:
                batches.result.rejects.append((item, reject))
                report(1, 1)
                continue
            items_now.append(item)
            if len(items_now) >= batches.result.batch_size:
                batches.encode(items_now, loaded_now)
                items_now, loaded_now = [], []
        batches.encode(items_now, loaded_now)
        batches.finish()
        return batches.result


def _loaded(
    items: Iterable[Item],
    load: Callable[[Item], Loaded],
    loaders: ThreadPoolExecutor,
    *,
    ahead: int,
) -> Iterator[tuple[Item, Future[Loaded]]]:
    """Items in order with their loading under way, at most `ahead` of them."""
    rest = iter(items)
    pending = deque((item, loaders.submit(load, item)) for item in islice(rest, ahead))
    try:
        while pending:
            yield pending.popleft()
            for item in islice(rest, 1):
                pending.append((item, loaders.submit(load, item)))
    finally:
        for _, future in pending:
            future.cancel()


def is_finite(rows: Rows, slot: int) -> bool:
    """Whether every value of one slot's row is finite."""
    return all(bool(tensor[slot].isfinite().all()) for tensor in rows.values())


def is_out_of_memory(error: Exception) -> bool:
    """Whether a device (or the CPU allocator) had no room for the batch."""
    if isinstance(error, MemoryError):
        return True
    words = str(error).lower()
    return isinstance(error, RuntimeError) and (
        "out of memory" in words or "can't allocate memory" in words
    )


def release_device_memory() -> None:
    """Give cached blocks back to the device before a smaller try."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.empty_cache()
