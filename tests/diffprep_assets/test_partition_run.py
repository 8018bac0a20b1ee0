"""What is fresh is passed over; the rest goes to an engine, whose workers end before it does."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import pytest

from diffprep_assets.partition_run import FEW_SAMPLES, Done, Failed, PartitionRun
from diffprep_assets.partition_worker import PartitionResult, PartitionTask
from diffprep_resources.compute.base import ComputeEngine, Outcome, Report, Task, Worker, WorkerSpec
from diffprep_resources.compute.engines import Load
from diffprep_resources.errors import DiffprepError
from diffprep_resources.progress.base import SampleCounts
from diffprep_resources.progress.silent import SilentProgress


@dataclass(frozen=True, slots=True)
class Step(PartitionTask):
    """`rejected` of its samples are left out; with `words` it fails."""

    rejected: int = 0
    words: str = ""
    batch_size: int | None = None


def step(key: str, num_samples: int = 1, rejected: int = 0, words: str = "") -> Step:
    return Step(key, num_samples, f"f-{key}", rejected, words)


def result_of(task: Step) -> PartitionResult:
    rejects = Counter({"encoder_failed": task.rejected} if task.rejected else {})
    kept = task.num_samples - task.rejected
    size = task.batch_size
    facts = {} if size is None else {"batch_size": size, "memory_peak_bytes": 10**9 * size}
    counts = SampleCounts(task.num_samples, kept, kept, 0, rejects)
    return PartitionResult(task.fingerprint, counts, 0, facts)


@dataclass(frozen=True, slots=True)
class Spec:
    def build(self) -> Worker:
        raise AssertionError("the engine below needs no worker")


@dataclass
class Engine(ComputeEngine):
    """Does tasks in order, and writes down what happened when."""

    happened: list[str] = field(default_factory=list)
    load: Load | None = None

    def lend(self, load: Load) -> "_Lent":
        return _Lent(self, load)

    def run(self, spec: WorkerSpec, tasks: Sequence[Task], *, report: Report) -> Iterator[Outcome]:
        try:
            for task in tasks:
                assert isinstance(task, Step)
                self.happened.append(task.key)
                report(task.num_samples)
                if task.words:
                    yield Outcome(task.key, error=task.words)
                else:
                    note = "a worker died on it" if task.key == "deadly" else None
                    yield Outcome(task.key, result_of(task), seconds=0.5, note=note)
        finally:
            self.happened.append("workers ended")


@dataclass
class _Lent:
    """The engine for a block, given back whatever happens."""

    engine: Engine
    load: Load

    def __enter__(self) -> ComputeEngine:
        self.engine.load = self.load
        self.engine.happened.append("lent")
        return self.engine

    def __exit__(self, *_: object) -> None:
        self.engine.happened.append("given back")


def run(
    tasks: Sequence[Step],
    engine: Engine,
    *,
    fresh: Sequence[str] = (),
    extra: Sequence[Step] = (),
    max_reject_rate: float = 1.0,
    log: Callable[[str], None] = lambda _: None,
) -> Iterator[Done | Failed]:
    def finished(task: PartitionTask) -> PartitionResult | None:
        assert isinstance(task, Step)
        return result_of(task) if task.key in fresh else None

    partitions = PartitionRun(
        stage="encode_text",
        unit="shards",
        tasks=tasks,
        finished=finished,
        spec=Spec(),
        recipe_hash="abc",
        samples_per_process=10,
        extra=extra,
        max_reject_rate=max_reject_rate,
    )
    return partitions.results(engine.lend, progress=SilentProgress(), log=log)


def test_fresh_ones_come_first_and_only_the_others_are_made():
    engine, said = Engine(), []
    results = list(
        run([step("a", 3), step("b", 4), step("c", 5)], engine, fresh="b", log=said.append)
    )
    assert [(type(result), result.key) for result in results] == [
        (Done, "b"),
        (Done, "a"),
        (Done, "c"),
    ]
    assert [result.reused for result in results if isinstance(result, Done)] == [True, False, False]
    assert engine.happened == ["lent", "a", "c", "workers ended", "given back"]
    assert engine.load is not None
    assert (engine.load.num_tasks, engine.load.num_samples) == (2, 8)
    assert said == ["encode_text: 2 of 3 shards to make, 8 samples"]


def test_where_all_is_fresh_no_engine_is_asked_for():
    engine = Engine()
    assert [result.key for result in run([step("a")], engine, fresh="a")] == ["a"]
    assert engine.happened == []


def test_what_the_devices_could_hold_is_told():
    said: list[str] = []
    tasks = [Step(key, 1, key, batch_size=size) for key, size in (("a", 8), ("b", 4))]
    assert len(list(run(tasks, Engine(), log=said.append))) == 2
    words = "batch size 4 to 8, halved where memory ran out; a worker's memory peak 8.0 GB"
    assert said[-1] == f"encode_text: {words}"


def test_a_workers_death_is_told_with_its_task():
    said: list[str] = []
    assert len(list(run([step("a"), step("deadly")], Engine(), log=said.append))) == 2
    assert said[1:] == ["encode_text: deadly: a worker died on it"]


def test_a_failed_one_is_told_and_the_others_go_on():
    results = list(run([step("a", words="no"), step("b")], Engine()))
    assert results[0] == Failed("a", "no")
    assert isinstance(results[1], Done)


def test_what_is_no_partition_is_told_only_when_it_fails():
    assert [r.key for r in run([step("a")], Engine(), extra=[step("empty caption")])] == ["a"]
    failing = list(run([step("a")], Engine(), extra=[step("empty caption", words="no")]))
    assert failing[0] == Failed("empty caption", "no")


def test_too_many_rejects_stop_the_run_with_the_commonest_reasons_and_the_way_out():
    tasks = [step("a", FEW_SAMPLES // 2, 30), step("b", FEW_SAMPLES // 2, 10), step("c", 10)]
    engine, results = Engine(), []
    with pytest.raises(DiffprepError) as caught:
        results.extend(run(tasks, engine, max_reject_rate=0.19))
    assert [result.key for result in results] == ["a", "b"]
    words = str(caught.value)
    assert "encode_text: 40 of 200 samples rejected (20.0%)" in words
    assert "output.max_reject_rate 0.19: encoder_failed 40" in words
    assert "--retry-rejects" in words
    # The device is given back when nobody works on it any more.
    assert engine.happened == ["lent", "a", "b", "workers ended", "given back"]


@pytest.mark.parametrize(
    ("tasks", "fresh"),
    [
        pytest.param([step("a", FEW_SAMPLES - 1, FEW_SAMPLES - 1)], "", id="few"),
        pytest.param([step("a", FEW_SAMPLES, FEW_SAMPLES // 5)], "", id="just as many"),
        pytest.param([step("a", FEW_SAMPLES, FEW_SAMPLES), step("b")], "a", id="made before"),
        pytest.param([step("a", 10 * FEW_SAMPLES, FEW_SAMPLES)], "", id="rare"),
    ],
)
def test_few_or_rare_or_earlier_rejects_stop_nothing(tasks: list[Step], fresh: str):
    results = list(run(tasks, Engine(), fresh=fresh, max_reject_rate=0.2))
    assert len(results) == len(tasks)


def test_a_consumer_that_fails_finds_the_workers_ended_and_the_device_given_back():
    engine = Engine()
    results = run([step("a"), step("b")], engine)
    next(results)
    results.close()  # pyright: ignore[reportAttributeAccessIssue] (a generator)
    assert engine.happened == ["lent", "a", "workers ended", "given back"]
