"""Every write, sync, rename, unlink and link of a commit fails in turn: what was to be written is
there whole, old or new, or not at all; and the next try makes it right."""

import errno
import io
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest
import xxhash
from megatron.energon import WorkerConfig, get_loader, get_val_dataset

from diffprep_assets.curate.update import update_curate
from diffprep_assets.encoded_rows import whole_record
from diffprep_assets.energon_prepare.update import prepare
from diffprep_assets.layout import Layout
from diffprep_assets.shard.record import read_samples
from diffprep_assets.shard_plan.table import read_head, read_shards
from diffprep_assets.shard_plan.update import update_plan
from diffprep_assets.source_index.table import read_index
from diffprep_resources.compute.base import ComputeEngine, Outcome, Report, Task, WorkerSpec
from diffprep_resources.compute.engines import Engines, Load
from diffprep_resources.compute.inline import InlineEngine
from diffprep_resources.trainers.energon import PreencodedTaskEncoder

if TYPE_CHECKING:
    from tests.conftest import Drawing
    from tests.survival.conftest import Workplace

Draw = Callable[..., "Drawing"]
Files = Mapping[str, bytes]
KILLED = 9
STUCK_S = 60

# What happens at the chosen operation:
#   error   it alone fails, with an input/output error
#   full    it and every write after it puts down half, then there is no space
#   gone    it and everything after it fails, so that nothing can be cleared away either
#   short   a write puts down half and says so, which is no error
#   killed  the process ends there and then, after half of a write
Kind = Literal["error", "full", "gone", "short", "killed"]
KINDS: tuple[Kind, ...] = ("error", "full", "gone", "short", "killed")


@dataclass
class Faults:
    """Operations on files below `root` are counted; what happens from the `at`th on is `kind`."""

    root: Path
    kind: Kind | None = None
    at: int = 0
    seen: list[str] = field(default_factory=list)

    def next_is_bad(self, name: str) -> bool:
        """Counts one operation, and says whether it is to go wrong."""
        self.seen.append(name)
        number = len(self.seen) - 1
        if self.kind is None or number < self.at:
            return False
        if self.kind == "full":
            return name == "write"
        return number == self.at or self.kind == "gone"

    def fail(self) -> None:
        """What an operation that cannot be done in part comes to."""
        if self.kind == "killed":
            os._exit(KILLED)
        if self.kind in {"error", "gone"}:
            raise OSError(errno.EIO, os.strerror(errno.EIO))


class FaultyFile(io.FileIO):
    """A file whose writes are counted, below any buffer."""

    def __init__(self, path: Any, mode: str, faults: Faults) -> None:
        super().__init__(path, mode)
        self._faults = faults

    def write(self, data: Any) -> int:
        if not self._faults.next_is_bad("write"):
            return super().write(data)
        kind = self._faults.kind
        if kind in {"full", "short", "killed"}:
            view = memoryview(data).cast("B")
            done = super().write(view[: max(1, len(view) // 2)])
            if kind == "short":
                return done
        if kind == "full":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._faults.fail()
        return super().write(data)


@contextmanager
def injected(faults: Faults) -> Iterator[None]:
    """File operations below the faults' root go through them."""
    originals = {name: getattr(os, name) for name in ("fsync", "replace", "unlink", "link")}
    original_open = io.open

    def counted(name: str) -> Callable[..., Any]:
        def call(target: Any, *rest: Any, **options: Any) -> Any:
            mine = isinstance(target, int) or str(target).startswith(str(faults.root))
            if mine and ".lock" not in str(target) and faults.next_is_bad(name):
                faults.fail()
            return originals[name](target, *rest, **options)

        return call

    def opened(path: Any, mode: str = "r", *rest: Any, **options: Any) -> Any:
        if "b" not in mode or not set(mode) & set("wxa+"):
            return original_open(path, mode, *rest, **options)
        if isinstance(path, int) or not str(path).startswith(str(faults.root)):
            return original_open(path, mode, *rest, **options)
        raw = FaultyFile(path, mode.replace("b", ""), faults)
        return io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)

    with pytest.MonkeyPatch.context() as patch:
        for name in originals:
            patch.setattr(os, name, counted(name))
        patch.setattr(io, "open", opened)
        yield


def carried_out(action: Callable[[], object], faults: Faults) -> bool:
    """Whether the action came to its end; with `killed` it runs in a process of its own."""
    if faults.kind != "killed":
        try:
            with injected(faults):
                action()
        except OSError:
            return False
        return True
    child = os.fork()
    if child == 0:
        signal.alarm(STUCK_S)
        try:
            with injected(faults):
                action()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in (0, KILLED)
    return code == 0


@dataclass
class Walk:
    """One thing that is written, by `action`, into `files`.

    `whole` raises where what a reader would take for whole is not. Without `exact` a file may be
    neither old nor new on the way, as long as `whole` is content.
    """

    workplace: "Workplace"
    action: Callable[[], object]
    files: Callable[[], Sequence[Path]]
    whole: Callable[[], None]
    exact: bool = True

    def contents(self) -> dict[str, bytes | None]:
        return {str(path): path.read_bytes() if path.exists() else None for path in self.files()}

    def walk(self, *, stride: int) -> dict[Kind, int]:
        """How many operations were made to go wrong, in each way."""
        self.workplace.save("before")
        old = self.contents()
        faults = Faults(self.workplace.folder)
        assert carried_out(self.action, faults)
        operations, new = list(faults.seen), self.contents()
        assert old != new
        writes = [number for number, name in enumerate(operations) if name == "write"]
        counts: dict[Kind, int] = {}
        for kind in KINDS:
            chosen = writes if kind in {"short", "full"} else range(len(operations))
            # All of them are tried within `stride` runs of the suite's kinds; the last one always.
            chosen = [*chosen[len(counts) % stride :: stride], *chosen[-1:]]
            for at in chosen:
                self._try(Faults(self.workplace.folder, kind, at), operations[at], old, new)
            counts[kind] = len(chosen)
        self._is_cleared_by_a_run(operations.index("fsync"))
        return counts

    def _is_cleared_by_a_run(self, at: int) -> None:
        """What a killed process leaves beside is gone after the next run."""
        self.workplace.restore("before")
        assert not carried_out(self.action, Faults(self.workplace.folder, "killed", at))
        assert self.workplace.leftovers() != []
        assert self.workplace.run().error is None
        assert self.workplace.leftovers() == []

    def _try(
        self,
        faults: Faults,
        operation: str,
        old: Mapping[str, bytes | None],
        new: Mapping[str, bytes | None],
    ) -> None:
        where = f"{faults.kind} at operation {faults.at}, {operation}"
        self.workplace.restore("before")
        done = carried_out(self.action, faults)
        # A link that cannot be made is a copy instead.
        instead = faults.kind == "error" and operation == "link"
        assert done == (faults.kind == "short" or instead), where
        self.whole()
        if self.exact:
            now = self.contents()
            assert all(now[path] in (old[path], new[path]) for path in now), where
        self.action()
        self.whole()
        assert self.contents() == new, where


# -- what is written -------------------------------------------------------------------------


class UpTo(Engines):
    """Runs stages here, but only remembers the work of the spec named `held`."""

    def __init__(self, held: str) -> None:
        self.held = held
        self.spec: Any = None
        self.tasks: list[Any] = []

    @contextmanager
    def cpu(self, load: Load) -> Iterator[ComputeEngine]:
        yield _Remembering(self)

    @contextmanager
    def device(
        self, load: Load, *, device: str | None = None, workers: int | None = None
    ) -> Iterator[ComputeEngine]:
        yield _Remembering(self)


class _Remembering(ComputeEngine):
    def __init__(self, engines: UpTo) -> None:
        self.engines = engines

    def run(self, spec: WorkerSpec, tasks: Sequence[Task], *, report: Report) -> Iterator[Outcome]:
        if type(spec).__name__ != self.engines.held:
            yield from InlineEngine(device="cpu").run(spec, tasks, report=report)
            return
        self.engines.spec, self.engines.tasks = spec, list(tasks)
        for task in tasks:
            yield Outcome(task.key, error="held back")


def rewritten(workplace: "Workplace", draw: Draw, *, held: str) -> UpTo:
    """A dataset of one shard, made once, of which one picture with its caption was changed since;
    the next run was held back before the work of the spec named `held`."""
    for folder in ("images", "captions"):
        (workplace.pictures / folder).mkdir(parents=True)
    for drawing in (draw(number) for number in range(3)):
        (workplace.pictures / "images" / drawing.name).write_bytes(drawing.data)
        text = workplace.pictures / "captions" / f"{drawing.stem}.txt"
        text.write_text(drawing.caption, "utf-8")
    workplace.write_recipe(output={"intermediates": "keep"})
    assert workplace.run().error is None
    (workplace.pictures / "images" / "p001.jpg").write_bytes(draw(1, version=1).data)
    (workplace.pictures / "captions" / "p001.txt").write_text("something else")
    engines = UpTo(held)
    report = workplace.run(engines=engines)
    assert report.error is not None
    assert "held back" in report.error[1]
    return engines


def held_work(engines: UpTo) -> Callable[[], object]:
    worker = engines.spec.build()
    worker.setup("cpu")
    return lambda: [worker.process(task, lambda *_: None) for task in engines.tasks]


def shard_walk(workplace: "Workplace", draw: Draw) -> Walk:
    engines = rewritten(workplace, draw, held="ShardSpec")
    layout = workplace.dataset().layout
    (shard,) = [task.key for task in engines.tasks]
    published = {path: path.read_bytes() for path in workplace.output.glob("*.tar")}

    def whole() -> None:
        tar_is_as_its_record_says(layout, shard)
        assert {path: path.read_bytes() for path in workplace.output.glob("*.tar")} == published

    return Walk(
        workplace,
        held_work(engines),
        lambda: [layout.shard_file(shard), layout.shard_samples(shard), layout.shard_record(shard)],
        whole,
    )


def tar_is_as_its_record_says(layout: Layout, shard: str) -> None:
    record = whole_record(layout, shard)
    if record is None:
        return
    tar = layout.shard_file(shard).read_bytes()
    assert xxhash.xxh3_128_hexdigest(tar) == record.digest
    rows = read_samples(layout.shard_samples(shard))
    assert len(rows) == record.num_samples
    for row in rows:
        data = tar[row.offset : row.offset + row.size]
        assert xxhash.xxh3_128_hexdigest(data) == row.digest


def latents_walk(workplace: "Workplace", draw: Draw) -> Walk:
    engines = rewritten(workplace, draw, held="LatentsSpec")
    layout = workplace.dataset().layout
    paths = [layout.latents(task.key) for task in engines.tasks]
    return Walk(workplace, held_work(engines), lambda: paths, lambda: None)


def text_walk(workplace: "Workplace", draw: Draw) -> Walk:
    engines = rewritten(workplace, draw, held="TextSpec")
    layout = workplace.dataset().layout
    paths = [layout.text(task.key) for task in engines.tasks]
    return Walk(workplace, held_work(engines), lambda: paths, lambda: None)


def bucket_walk(workplace: "Workplace", draw: Draw) -> Walk:
    engines = rewritten(workplace, draw, held="BucketSpec")
    layout = workplace.dataset().layout
    paths = [layout.bucket(task.key) for task in engines.tasks]
    return Walk(workplace, held_work(engines), lambda: paths, lambda: None)


def plan_walk(workplace: "Workplace", draw: Draw) -> Walk:
    engines = rewritten(workplace, draw, held="BucketSpec")
    held_work(engines)()
    dataset = workplace.dataset()
    layout = dataset.layout

    def action() -> None:
        index = read_index(layout.source_index)
        assert index is not None
        update_curate(dataset, index)
        update_plan(dataset, index)

    def whole() -> None:
        plan, view = read_head(layout.shard_plan), read_head(layout.shards)
        assert plan is not None
        assert view is not None
        if plan["digest"] == view["plan_digest"]:
            assert sum(shard.num_samples for shard in read_shards(layout.shards)) == 3

    return Walk(workplace, action, lambda: [layout.shard_plan, layout.shards], whole)


def publish_walk(workplace: "Workplace", draw: Draw) -> Walk:
    engines = rewritten(workplace, draw, held="ShardSpec")
    held_work(engines)()
    dataset = workplace.dataset()
    old = captions(workplace.output)
    new = sorted([*old[:1], *old[2:], "something else"])
    assert len(old) == 3
    assert old[1] not in new

    def whole() -> None:
        assert captions(workplace.output) in (old, new)

    def files() -> list[Path]:
        # The index's rows are equal, its bytes need not be.
        found = (path for path in workplace.output.rglob("*") if path.is_file())
        return [path for path in found if path.name != "index.sqlite"]

    return Walk(workplace, lambda: prepare(dataset), files, whole, exact=False)


def captions(folder: Path) -> list[str]:
    """What a trainer reads, by energon's own loader."""
    dataset = get_val_dataset(
        folder,
        split_part="train",
        worker_config=WorkerConfig(rank=0, world_size=1, num_workers=0),
        batch_size=4,
        task_encoder=PreencodedTaskEncoder(),
    )
    batches = list(get_loader(dataset, watchdog_timeout_seconds=None))
    return sorted(caption for batch in batches for caption in batch["captions"])


# Of each, every so manieth operation in the suite; all of them in its longer form.
WALKS = {
    shard_walk: 5,
    latents_walk: 7,
    text_walk: 7,
    bucket_walk: 5,
    plan_walk: 6,
    publish_walk: 24,
}
CASES = [
    pytest.param(walk, number, id=f"{walk.__name__}-{number}", marks=marks)
    for walk, stride in WALKS.items()
    for number, marks in ((stride, ()), (1, pytest.mark.long))
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("start", "stride"), CASES)
def test_whatever_fails_it_is_whole_or_not_there_and_the_next_try_makes_it(
    workplace: "Workplace", drawing: Draw, start: Callable[..., Walk], stride: int
):
    counts = start(workplace, drawing).walk(stride=stride)
    assert counts.keys() == set(KINDS)
    assert all(counts.values())
    if stride == 1:
        assert counts["killed"] > 5
