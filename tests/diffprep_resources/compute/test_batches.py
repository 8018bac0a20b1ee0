"""Batches of numbers: each item n is loaded as n and encoded as a row of twice n."""

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import pytest
import torch

from diffprep_resources.compute.base import unheard
from diffprep_resources.compute.batches import (
    LOADED_BATCHES_AHEAD,
    WRITES_AHEAD,
    BatchJob,
    BatchResult,
    encode_in_batches,
)
from diffprep_resources.errors import SampleReject, SourceChangedError

BLANK = -1.0


@dataclass
class Numbers(BatchJob[int, float]):
    """Keeps what it was called with. `trouble` is asked before each batch, with its inputs."""

    trouble: Callable[[list[float], bool], None] = lambda batch, float32: None
    infinite: set[int] = field(default_factory=set)
    always_infinite: set[int] = field(default_factory=set)
    unreadable: set[int] = field(default_factory=set)
    batches: list[tuple[list[int | None], list[float], bool]] = field(default_factory=list)
    rows: dict[int, float] = field(default_factory=dict)
    loaded: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def load(self, item: int) -> float:
        with self.lock:
            self.loaded += 1
        if item in self.unreadable:
            raise SampleReject("unreadable_image", f"{item} cannot be read")
        return float(item)

    def blank(self) -> float:
        return BLANK

    def encode(
        self, items: Sequence[int | None], batch: list[float], *, float32: bool
    ) -> dict[str, torch.Tensor]:
        self.batches.append((list(items), list(batch), float32))
        self.trouble(batch, float32)
        values = torch.tensor([[2 * value] for value in batch])
        for slot, value in enumerate(batch):
            if value in self.always_infinite or (value in self.infinite and not float32):
                values[slot] = float("inf")
        return {"row": values}

    def write(self, item: int, row: dict[str, torch.Tensor]) -> None:
        assert item not in self.rows
        self.rows[item] = row["row"].item()


def run(
    job: Numbers, count: int, *, batch_size: int = 4, load_threads: int = 2
) -> tuple[BatchResult[int], int]:
    """The result over items 0 .. count, and how many samples were reported; of these those left
    out are the rejects of the result."""
    reported: list[tuple[int, int]] = []

    def report(num_samples: int, rejected: int = 0, /) -> None:
        reported.append((num_samples, rejected))

    result = encode_in_batches(
        range(count),
        job,
        batch_size=batch_size,
        load_threads=load_threads,
        report=report,
    )
    assert sum(rejected for _, rejected in reported) == len(result.rejects)
    return result, sum(done for done, _ in reported)


def doubled(*items: int) -> dict[int, float]:
    return {item: 2.0 * item for item in items}


def codes(result: BatchResult[int]) -> dict[int, str]:
    return {item: reject.code for item, reject in result.rejects}


def test_items_keep_their_order_and_a_short_batch_is_padded_to_the_size():
    job = Numbers()
    result, reported = run(job, 10)
    assert job.rows == doubled(*range(10))
    assert [items for items, _, _ in job.batches] == [
        [0, 1, 2, 3],
        [4, 5, 6, 7],
        [8, 9, None, None],
    ]
    assert job.batches[-1][1] == [8.0, 9.0, BLANK, BLANK]
    assert (result.encoded, result.rejects, result.batch_size, reported) == (10, [], 4, 10)


def test_no_items_encode_nothing():
    job = Numbers()
    result, reported = run(job, 0)
    assert (job.batches, result.encoded, reported) == ([], 0, 0)


def test_an_item_that_cannot_be_loaded_is_a_reject_and_its_place_is_taken_by_the_next():
    job = Numbers(unreadable={1, 5})
    result, reported = run(job, 7)
    assert codes(result) == {1: "unreadable_image", 5: "unreadable_image"}
    assert job.rows == doubled(0, 2, 3, 4, 6)
    assert [items for items, _, _ in job.batches] == [[0, 2, 3, 4], [6, None, None, None]]
    assert (result.encoded, reported) == (5, 7)


def test_an_item_that_makes_the_encoder_raise_is_found_at_the_same_size_and_only_it_is_lost():
    def trouble(batch: list[float], float32: bool) -> None:
        if 2.0 in batch:
            raise ValueError("two is too much")

    job = Numbers(trouble)
    result, reported = run(job, 8, batch_size=8)
    assert codes(result) == {2: "encoder_failed"}
    assert "two is too much" in result.rejects[0][1].message
    assert job.rows == doubled(0, 1, 3, 4, 5, 6, 7)
    assert all(len(batch) == 8 for _, batch, _ in job.batches)
    # Alone, in its own slot, every other one blank.
    assert job.batches[4][1] == [BLANK] * 3 + [3.0] + [BLANK] * 4
    assert (result.encoded, reported) == (7, 8)


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory"),
        torch.OutOfMemoryError("CUDA out of memory"),
    ],
    ids=["python", "cuda", "cpu", "torch"],
)
def test_out_of_memory_halves_the_batch_and_goes_on_at_that_size(error: Exception):
    def trouble(batch: list[float], float32: bool) -> None:
        if len(batch) > 2:
            raise error

    job = Numbers(trouble)
    result, reported = run(job, 11, batch_size=8)
    assert job.rows == doubled(*range(11))
    assert [len(batch) for _, batch, _ in job.batches] == [8, 4, 2, 2, 2, 2, 2, 2]
    assert (result.batch_size, result.encoded, result.rejects, reported) == (2, 11, [], 11)


def test_out_of_memory_at_one_sample_ends_the_shard():
    def trouble(batch: list[float], float32: bool) -> None:
        raise MemoryError

    with pytest.raises(MemoryError):
        run(Numbers(trouble), 3)


def test_a_row_that_is_not_finite_is_redone_in_float32_and_its_neighbours_are_not():
    job = Numbers(infinite={1})
    result, reported = run(job, 4)
    assert job.rows == doubled(0, 1, 2, 3)
    assert [float32 for _, _, float32 in job.batches] == [False, True]
    assert job.batches[0][:2] == job.batches[1][:2]
    assert (result.encoded, result.rejects, reported) == (4, [], 4)


def test_a_row_that_is_not_finite_in_float32_either_is_a_reject_and_never_written():
    job = Numbers(infinite={1}, always_infinite={3})
    result, reported = run(job, 5)
    assert codes(result) == {3: "non_finite"}
    assert job.rows == doubled(0, 1, 2, 4)
    assert (result.encoded, reported) == (4, 5)


def test_a_source_that_changed_ends_the_shard_and_is_not_a_reject():
    class Changed(Numbers):
        def load(self, item: int) -> float:
            raise SourceChangedError("source changed since bucket: x")

    with pytest.raises(SourceChangedError, match="source changed"):
        run(Changed(), 3)


def test_an_error_of_the_writer_is_raised():
    class Full(Numbers):
        def write(self, item: int, row: dict[str, torch.Tensor]) -> None:
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        run(Full(), 3)


def test_an_error_of_the_writer_is_raised_though_it_passes():
    """Its row is of an earlier batch, and would be missing for good."""

    class Once(Numbers):
        def write(self, item: int, row: dict[str, torch.Tensor]) -> None:
            if item == 1:
                raise OSError(5, "Input/output error")
            super().write(item, row)

    job = Once()
    with pytest.raises(OSError, match="Input/output error"):
        run(job, 40)
    # Nobody was encoded on his own for that.
    assert all(None not in items for items, _, _ in job.batches)


def test_an_item_that_cannot_be_redone_in_float32_is_found_too():
    def trouble(batch: list[float], float32: bool) -> None:
        if float32 and 2.0 in batch:
            raise RuntimeError("no such kernel")

    job = Numbers(trouble=trouble, infinite={1, 2})
    result, _ = run(job, 4)
    assert codes(result) == {2: "encoder_failed"}
    assert job.rows == doubled(0, 1, 3)


def test_no_more_is_read_ahead_than_a_few_batches_hold():
    taken = 0

    def items() -> Iterator[int]:
        nonlocal taken
        for number in range(100):
            taken += 1
            yield number

    most = 0

    class Watched(Numbers):
        def encode(
            self, items: Sequence[int | None], batch: list[float], *, float32: bool
        ) -> dict[str, torch.Tensor]:
            nonlocal most
            most = max(most, taken - len(self.batches) * 4)
            return super().encode(items, batch, float32=float32)

    job = Watched()
    encode_in_batches(items(), job, batch_size=4, load_threads=3, report=unheard)
    assert job.rows == doubled(*range(100))
    assert most <= (LOADED_BATCHES_AHEAD + 1) * 4
    assert WRITES_AHEAD <= 4
