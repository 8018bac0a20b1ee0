"""The same tars from any engine, worker count, order of tasks, history; at one batch size."""

import io
import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
import torch

from diffprep_assets.shard.record import read_samples
from diffprep_assets.shard_plan.table import read_shards
from diffprep_resources.compute.base import ComputeEngine, Outcome, Report, Task, WorkerSpec
from diffprep_resources.compute.engines import Engines, Load
from diffprep_resources.compute.inline import InlineEngine
from diffprep_resources.compute.local import LocalEngine

if TYPE_CHECKING:
    from tests.conftest import Drawing
    from tests.survival.conftest import Workplace

Draw = Callable[..., "Drawing"]


@dataclass(frozen=True)
class Shuffled(ComputeEngine):
    """Another engine, given its tasks in a seeded order."""

    engine: ComputeEngine
    seed: int

    def run(self, spec: WorkerSpec, tasks: Sequence[Task], *, report: Report) -> Iterator[Outcome]:
        shuffled = random.Random(self.seed).sample(list(tasks), len(tasks))
        return self.engine.run(spec, shuffled, report=report)


@dataclass(frozen=True)
class Only(ComputeEngine):
    """Another engine for the work of some specs, by name, and this process for the rest."""

    engine: ComputeEngine
    specs: tuple[str, ...]

    def run(self, spec: WorkerSpec, tasks: Sequence[Task], *, report: Report) -> Iterator[Outcome]:
        chosen = type(spec).__name__ in self.specs
        engine = self.engine if chosen else InlineEngine(device="cpu")
        return engine.run(spec, tasks, report=report)


class Always(Engines):
    """One engine for every stage, however little there is to do; `only` for the work of these
    specs, the others here."""

    def __init__(self, engine: ComputeEngine, only: Sequence[str] = ()) -> None:
        self.engine = Only(engine, tuple(only)) if only else engine

    @contextmanager
    def cpu(self, load: Load) -> Iterator[ComputeEngine]:
        yield self.engine

    @contextmanager
    def device(
        self, load: Load, *, device: str | None = None, workers: int | None = None
    ) -> Iterator[ComputeEngine]:
        yield self.engine


def prepare(workplace: "Workplace", draw: Draw, numbers: Sequence[int], **model: object) -> None:
    for folder in ("images", "captions"):
        (workplace.pictures / folder).mkdir(parents=True, exist_ok=True)
    for drawing in (draw(number) for number in numbers):
        (workplace.pictures / "images" / drawing.name).write_bytes(drawing.data)
        text = workplace.pictures / "captions" / f"{drawing.stem}.txt"
        text.write_text(drawing.caption, "utf-8")
    workplace.write_recipe(output={"shard_size": 3}, model={"precision": "bf16", **model})


@pytest.fixture(scope="session")
def expected(workplaces: Callable[[str], "Workplace"], drawing: Draw) -> dict[str, str]:
    """Digests by shard of ten pictures in four shards, made in one go in one process."""
    workplace = workplaces("expected")
    prepare(workplace, drawing, range(10))
    assert workplace.run().error is None
    return workplace.tar_digests()


SHUFFLED_HERE = Shuffled(InlineEngine(device="cpu"), 1)
TWO, FOUR = (Shuffled(LocalEngine(["cpu"] * number), number) for number in (2, 4))
ENGINES = [
    pytest.param(Always(SHUFFLED_HERE), id="inline-shuffled"),
    pytest.param(Always(TWO, only=["LatentsSpec"]), id="local-2-latents"),
    pytest.param(Always(TWO, only=["TextSpec"]), id="local-2-text", marks=pytest.mark.long),
    pytest.param(Always(LocalEngine(["cpu"])), id="local-1", marks=pytest.mark.long),
    pytest.param(Always(TWO), id="local-2-all", marks=pytest.mark.long),
    pytest.param(Always(FOUR), id="local-4-all", marks=pytest.mark.long),
]


@pytest.mark.parametrize("engines", ENGINES)
def test_any_engine_makes_the_same_tars(
    workplace: "Workplace", drawing: Draw, expected: dict[str, str], engines: Always
):
    prepare(workplace, drawing, range(10))
    report = workplace.run(engines=engines)
    assert report.error is None, report.error
    assert report.written == 10
    assert workplace.tar_digests() == expected


def test_any_history_makes_the_same_tars(
    workplace: "Workplace", drawing: Draw, expected: dict[str, str]
):
    """Shards that grew, rows taken over from tars and row files, edits that were taken back."""
    prepare(workplace, drawing, range(4))
    assert workplace.run().error is None
    prepare(workplace, drawing, range(10))
    assert workplace.run().error is None
    assert workplace.tar_digests() == expected

    (workplace.pictures / "captions" / "p001.txt").write_text("for a while something else")
    image = workplace.pictures / "images" / "p005.jpg"
    data = image.read_bytes()
    image.write_bytes(drawing(5, version=1).data)
    (workplace.pictures / "images" / "p008.jpg").rename(workplace.folder / "p008.jpg")
    assert workplace.run({"output.intermediates": "keep"}).error is None
    assert len(workplace.tar_digests().items() & expected.items()) == 1
    prepare(workplace, drawing, range(1, 10, 7))
    image.write_bytes(data)
    # What left its shard comes back into the last one: its old place stays empty.
    report = workplace.run()
    assert report.written == 10
    now = workplace.tar_digests()
    assert now.keys() == expected.keys()
    changed = {shard for shard in expected if now[shard] != expected[shard]}
    assert changed == {"g0-64-64x64-000002", "g0-64-64x64-000003"}


def test_lost_files_come_back_the_same(
    workplace: "Workplace", drawing: Draw, expected: dict[str, str]
):
    prepare(workplace, drawing, range(10))
    workplace.run()
    layout = workplace.dataset().layout
    shards = list(expected)
    layout.shard_file(shards[0]).unlink()
    layout.shard_record(shards[1]).unlink()
    layout.shard_samples(shards[2]).unlink()
    cut = layout.shard_file(shards[3])
    data = cut.read_bytes()
    cut.unlink()
    cut.write_bytes(data[: len(data) // 2])
    report = workplace.run()
    assert report.error is None, report.error
    assert report.summaries["shard"].done == 4
    assert workplace.tar_digests() == expected


Tensors = dict[tuple[str, str], torch.Tensor]


def tensors(workplace: "Workplace") -> Tensors:
    """Every tensor of every tar, by sample key and name."""
    layout = workplace.dataset().layout
    found = {}
    for shard in read_shards(layout.shards):
        tar = layout.shard_file(shard.shard).read_bytes()
        for row in read_samples(layout.shard_samples(shard.shard)):
            for part in row.parts:
                if part.name.endswith(".pth"):
                    content = io.BytesIO(tar[part.offset : part.offset + part.size])
                    found[row.key, part.name] = torch.load(content, weights_only=True)
    return found


@pytest.mark.parametrize(("precision", "tolerance"), [("fp32", 1e-5), ("bf16", 0.02)])
def test_another_batch_size_is_close_and_makes_nothing_stale(
    workplace: "Workplace", drawing: Draw, precision: str, tolerance: float
):
    prepare(workplace, drawing, range(5), precision=precision, batch_size=1)
    workplace.run()
    alone = tensors(workplace)
    assert len(alone) == 15
    report = workplace.run({"model.batch_size": 16})
    assert report.summaries["encode_latents"].done == 0

    shutil.rmtree(workplace.work)
    shutil.rmtree(workplace.output)
    workplace.run({"model.batch_size": 16})
    together = tensors(workplace)
    assert together.keys() == alone.keys()
    for key, tensor in alone.items():
        other = together[key]
        assert other.dtype == tensor.dtype
        difference = (other.double() - tensor.double()).abs().max()
        assert difference <= tolerance * tensor.double().abs().max(), key
