"""The engine of several processes: results as they come, deaths attributed, nothing left behind."""

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from diffprep_resources.compute.base import Outcome, Report, Worker, unheard
from diffprep_resources.compute.inline import InlineEngine
from diffprep_resources.compute.local import LocalEngine
from diffprep_resources.compute.memory import Memory
from diffprep_resources.errors import ModelError, SampleReject, SettingError, SourceChangedError
from diffprep_resources.storage.atomic import replace_file

ROOT = Path(__file__).parents[3]
GONE_WITHIN_S = 10.0


@pytest.fixture(autouse=True)
def workers_find_this_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """A spawned process looks for this module on its parent's path."""
    monkeypatch.syspath_prepend(str(ROOT))


@pytest.fixture(autouse=True)
def nobody_is_left() -> Iterator[None]:
    """Each test's workers are gone and reaped when it ends."""
    yield
    assert children_of(os.getpid()) == []


@dataclass(frozen=True, slots=True)
class Step:
    """`do` says what happens to the worker; `times` how often, counted in `folder`."""

    key: str
    do: str = "work"
    num_samples: int = 1
    times: int = 1_000_000
    payload: int = 0


@dataclass(frozen=True, slots=True)
class Spec:
    folder: Path
    setup: str = "work"

    def build(self) -> "ScriptedWorker":
        if self.setup == "no worker":
            raise SettingError("there is no such worker")
        return ScriptedWorker(self)


class ScriptedWorker(Worker):
    """Does as its tasks say, and writes down in `folder` what it began."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.device = ""

    def setup(self, device: str) -> None:
        self.device = device
        begun(self.spec.folder, "setup")
        act(self.spec.setup)

    def process(self, task: Step, report: Report) -> dict[str, object]:
        if begun(self.spec.folder, task.key) <= task.times:
            if task.do == "meet":
                wait_until(lambda: (self.spec.folder / "setup").read_text() == "xx")
            if task.do == "write":
                with replace_file(self.spec.folder / "file"):
                    begun(self.spec.folder, "writing")
                    time.sleep(60)
            act(task.do)
        report(task.num_samples)
        return {
            "pid": os.getpid(),
            "device": self.device,
            "payload": b"x" * task.payload,
            "setting": os.environ.get("SETTING"),
        }

    def close(self) -> None:
        begun(self.spec.folder, "close")
        if self.spec.setup == "hang in close":
            time.sleep(60)


def begun(folder: Path, name: str) -> int:
    """How often `name` was begun by now, this time included."""
    with (folder / name).open("a") as file:
        file.write("x")
        return file.tell()


def act(what: str) -> None:
    errors = {
        "no space": OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/full/file"),
        "read-only": OSError(errno.EROFS, os.strerror(errno.EROFS), "/fixed/file"),
        "bad disk": OSError(errno.EIO, os.strerror(errno.EIO), "/bad/file"),
        "changed": SourceChangedError("source changed since bucket: a.jpg"),
        "no model": ModelError("no VAE at /models/x"),
        "setting": SettingError("device must be cpu, got tpu"),
        "reject": SampleReject("non_finite", "encoding is not finite"),
        "unsendable": Unsendable("one", "two"),
    }
    if what in errors:
        raise errors[what]
    if what == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    elif what == "die while sending":
        time.sleep(1)
        threading.Timer(0.4, os.kill, (os.getpid(), signal.SIGKILL)).start()
    elif what == "exit":
        os._exit(7)
    elif what == "leave":
        sys.exit(3)
    elif what == "sleep":
        time.sleep(60)
    elif what.startswith("wait "):
        time.sleep(float(what.removeprefix("wait ")))


class Unsendable(Exception):
    """Cannot be made again from its `args`, as some libraries' errors cannot."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} and {second}")


def children_of(pid: int) -> list[int]:
    """Processes started by `pid`, zombies included; multiprocessing's own tracker is none."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
            words = stat.with_name("cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[1]) == pid and b"resource_tracker" not in words:
            found.append(int(stat.parent.name))
    return found


def run(
    folder: Path, steps: list[Step], *, workers: int = 2, setup: str = "work"
) -> dict[str, Outcome]:
    """Outcomes by key; exactly one for each task."""
    outcomes: dict[str, Outcome] = {}
    for outcome in LocalEngine(["cpu"] * workers).run(Spec(folder, setup), steps, report=unheard):
        assert outcome.key not in outcomes
        outcomes[outcome.key] = outcome
    assert outcomes.keys() == {step.key for step in steps}
    return outcomes


def test_tasks_go_to_whoever_is_free_and_results_come_as_they_end(tmp_path: Path):
    steps = [Step("slow", "wait 1.5"), *(Step(f"quick-{n}") for n in range(5))]
    reported: list[int] = []
    held: list[Memory] = []
    engine = LocalEngine(["cpu", "cpu"])

    def report(num_samples: int, rejected: int = 0, /) -> None:
        reported.append(num_samples)
        held[:] = engine.memory()

    outcomes = list(engine.run(Spec(tmp_path), steps, report=report))
    assert [outcome.key for outcome in outcomes][-1] == "slow"
    assert sum(reported) == 6
    assert all(memory.used_bytes > 5_000_000 for memory in held)
    assert held
    assert engine.memory() == []
    pids = {outcome.key: outcome.result["pid"] for outcome in outcomes}
    assert len(set(pids.values())) == 2
    assert os.getpid() not in pids.values()
    assert {pid for key, pid in pids.items() if key != "slow"}.isdisjoint({pids["slow"]})
    assert outcomes[-1].seconds >= 1.5
    assert (tmp_path / "close").read_text() == "xx"


def test_each_device_has_its_worker_and_no_more_are_started_than_there_are_tasks(tmp_path: Path):
    steps = [Step(key, "meet") for key in "ab"]
    engine = LocalEngine(["cpu", "meta", "cpu"])
    outcomes = list(engine.run(Spec(tmp_path), steps, report=unheard))
    assert {outcome.result["device"] for outcome in outcomes} == {"cpu", "meta"}
    assert (tmp_path / "setup").read_text() == "xx"
    assert list(engine.run(Spec(tmp_path), [], report=unheard)) == []


def test_a_large_result_comes_whole(tmp_path: Path):
    outcomes = run(tmp_path, [Step("a", payload=3_000_000), Step("b", payload=5)])
    assert [len(outcomes[key].result["payload"]) for key in "ab"] == [3_000_000, 5]


@pytest.mark.parametrize("how", ["die", "exit", "leave"])
def test_a_task_whose_worker_dies_once_is_done_by_another(tmp_path: Path, how: str):
    outcomes = run(tmp_path, [Step("a", how, times=1), Step("b"), Step("c")], workers=1)
    assert [outcome.error for outcome in outcomes.values()] == [None] * 3
    assert (tmp_path / "a").read_text() == "xx"
    assert (tmp_path / "setup").read_text() == "xx"
    words = {"die": "killed by SIGKILL", "exit": "exit code 7", "leave": "exit code 3"}[how]
    note = outcomes["a"].note or ""
    assert note.startswith(f"a worker died on it, {words}")
    assert note.endswith("; it was tried again")
    assert outcomes["b"].note is None


def test_a_worker_that_dies_with_half_a_result_sent_is_replaced(tmp_path: Path):
    def look_away(num_samples: int, rejected: int = 0, /) -> None:
        """While the first task reports, the other one's result fills its pipe."""
        if begun(tmp_path, "reports") == 1:
            time.sleep(1.8)

    steps = [
        Step("a", "wait 0.8"),
        Step("b", "die while sending", times=1, payload=3_000_000),
    ]
    outcomes = list(LocalEngine(["cpu"] * 2).run(Spec(tmp_path), steps, report=look_away))
    assert {outcome.key: outcome.error for outcome in outcomes} == {"a": None, "b": None}
    assert (tmp_path / "b").read_text() == "xx"


@pytest.mark.parametrize(("how", "words"), [("die", "killed by SIGKILL"), ("exit", "exit code 7")])
def test_a_task_whose_worker_dies_twice_fails_with_the_reason_and_the_others_are_done(
    tmp_path: Path, how: str, words: str
):
    outcomes = run(tmp_path, [Step("a"), Step("b", how), Step("c"), Step("d")])
    assert outcomes["b"].error is not None
    assert words in outcomes["b"].error
    assert "2 times" in outcomes["b"].error
    assert [outcomes[key].error for key in "acd"] == [None] * 3
    assert (tmp_path / "b").read_text() == "xx"


def test_every_task_deadly_ends_too(tmp_path: Path):
    outcomes = run(tmp_path, [Step(key, "die") for key in "abc"])
    assert all(outcome.error for outcome in outcomes.values())


@pytest.mark.parametrize(
    ("setup", "error", "words"),
    [
        ("die", ChildProcessError, "died while it started: killed by SIGKILL"),
        ("no model", ModelError, "no VAE at /models/x"),
        ("setting", SettingError, "device must be cpu, got tpu"),
        ("no space", OSError, "No space left"),
        ("unsendable", RuntimeError, "Unsendable: one and two"),
        ("no worker", SettingError, "there is no such worker"),
    ],
)
def test_a_worker_that_cannot_start_stops_the_stage(
    tmp_path: Path, setup: str, error: type[Exception], words: str
):
    with pytest.raises(error, match=words):
        run(tmp_path, [Step("a"), Step("b")], setup=setup)


@pytest.mark.parametrize(
    ("what", "number"), [("no space", errno.ENOSPC), ("read-only", errno.EROFS)]
)
@pytest.mark.parametrize("engine", [InlineEngine(device="cpu"), LocalEngine(["cpu"] * 2)])
def test_a_world_that_is_broken_for_all_stops_the_stage_with_its_number(
    tmp_path: Path, what: str, number: int, engine: InlineEngine | LocalEngine
):
    steps = [Step("a", what), *(Step(f"later-{n}", "wait 0.2") for n in range(20))]
    outcomes = []
    with pytest.raises(OSError, match="/f") as caught:
        outcomes.extend(engine.run(Spec(tmp_path), steps, report=unheard))
    assert caught.value.errno == number
    assert caught.value.filename in {"/full/file", "/fixed/file"}
    assert len(outcomes) < 20


@pytest.mark.parametrize("engine", [InlineEngine(device="cpu"), LocalEngine(["cpu"] * 2)])
def test_what_one_task_cannot_get_over_fails_that_task_with_its_words(
    tmp_path: Path, engine: InlineEngine | LocalEngine
):
    wanted = {
        "changed": "source changed since bucket: a.jpg",
        "no model": "no VAE at /models/x",
        "bad disk": f"[Errno {errno.EIO}] Input/output error: '/bad/file'",
        "reject": "non_finite: encoding is not finite",
        "unsendable": "one and two",
        "work": None,
    }
    steps = [Step(what, what) for what in wanted]
    found = {
        outcome.key: outcome.error for outcome in engine.run(Spec(tmp_path), steps, report=unheard)
    }
    assert found == wanted


def test_a_consumer_that_stops_early_leaves_no_worker(tmp_path: Path):
    steps = [Step("a"), *(Step(f"sleeper-{n}", "sleep") for n in range(3))]
    begin = time.monotonic()
    outcomes = LocalEngine(["cpu"] * 2).run(Spec(tmp_path), steps, report=unheard)
    assert next(outcomes).key == "a"
    outcomes.close()  # pyright: ignore[reportAttributeAccessIssue] (a generator)
    assert children_of(os.getpid()) == []
    assert time.monotonic() - begin < 30


def test_a_worker_that_is_ended_leaves_nothing_half_written(tmp_path: Path):
    """By the run that stops, or by somebody else, each time that it is tried."""
    steps = [Step("a", "write"), Step("b", "write")]
    outcomes = LocalEngine(["cpu"] * 2).run(Spec(tmp_path), steps, report=lambda *_: None)

    def end_one() -> None:
        """The worker of one of the tasks, and the one that tries it again."""
        wait_until(lambda: read(tmp_path / "writing") == "xx")
        workers = children_of(os.getpid())
        os.kill(workers[0], signal.SIGTERM)
        wait_until(lambda: read(tmp_path / "writing") == "xxx")
        (second,) = {*children_of(os.getpid())} - {*workers}
        os.kill(second, signal.SIGTERM)

    def read(path: Path) -> str:
        return path.read_text() if path.exists() else ""

    other = threading.Thread(target=end_one)
    other.start()
    outcome = next(outcomes)
    other.join()
    assert outcome.error == "the worker died 2 times on it, ended by SIGTERM"
    assert len(list(tmp_path.glob(".writing-*"))) == 1
    outcomes.close()  # pyright: ignore[reportAttributeAccessIssue] (a generator)
    assert not list(tmp_path.glob(".writing-*"))
    assert not (tmp_path / "file").exists()


def test_an_error_in_the_consumer_leaves_no_worker(tmp_path: Path):
    def refuse(num_samples: int, rejected: int = 0, /) -> None:
        raise ValueError("shown badly")

    steps = [Step("a"), Step("b", "sleep")]
    with pytest.raises(ValueError, match="shown badly"):
        list(LocalEngine(["cpu"] * 2).run(Spec(tmp_path), steps, report=refuse))


def test_a_worker_that_does_not_end_is_ended_and_keeps_nobody_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("diffprep_resources.compute.local.STOP_S", 1.0)
    steps = [Step("a"), Step("b", "wait 0.3")]
    begin = time.monotonic()
    outcomes = LocalEngine(["cpu"] * 2).run(Spec(tmp_path, "hang in close"), steps, report=unheard)
    assert {next(outcomes).key, next(outcomes).key} == {"a", "b"}
    heard = time.monotonic()
    assert list(outcomes) == []
    assert time.monotonic() - heard > 0.5
    assert heard - begin < 10


PARENT = """
import sys
from pathlib import Path
sys.path.insert(0, {root!r})
from tests.diffprep_resources.compute.test_local import LocalEngine, Spec, Step

if __name__ == "__main__":
    engine = LocalEngine(["cpu", "cpu"], imports={imports!r})
    for outcome in engine.run(
        Spec(Path({folder!r})), [Step("c", "sleep"), Step("d", "sleep")], report=lambda *_: None
    ):
        pass
"""


@pytest.mark.skipif(sys.platform != "linux", reason="PR_SET_PDEATHSIG is Linux's")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("at", ["work, spawned", "work, from a server", "the server's imports"])
def test_workers_die_with_their_parent(tmp_path: Path, how: signal.Signals, at: str):
    """And so does the server that they come from, which would import for a minute here."""
    (tmp_path / "slow_import.py").write_text(
        f"import pathlib, time; pathlib.Path({str(tmp_path)!r}, 'imports').touch(); time.sleep(60)"
    )
    imports = {"work, spawned": [], "work, from a server": ["json.tool"]}.get(at, ["slow_import"])
    script = tmp_path / "parent.py"
    script.write_text(PARENT.format(root=str(ROOT), folder=str(tmp_path), imports=imports))
    begun = (
        [tmp_path / "imports"] if imports == ["slow_import"] else [tmp_path / "c", tmp_path / "d"]
    )
    words = [sys.executable, str(script)]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    with subprocess.Popen(words, env=environment, start_new_session=True) as parent:
        wait_until(lambda: all(path.exists() for path in begun))
        group = group_of(parent.pid)
        assert len(group) >= 2
        parent.send_signal(how)
        parent.wait()
    wait_until(lambda: not any(is_alive(pid) for pid in group))


def group_of(leader: int) -> list[int]:
    """The processes that `leader` started, and theirs."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(stat.read_text().rpartition(")")[2].split()[2]) == leader:
                found.append(int(stat.parent.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return [pid for pid in found if pid != leader]


TWO_RUNS = """
import os, sys
from pathlib import Path
sys.path.insert(0, {root!r})
from tests.diffprep_resources.compute.test_local import LocalEngine, Spec, Step, unheard

if __name__ == "__main__":
    for setting in ("first", "first", "second", "first"):
        os.environ["SETTING"] = setting
        engine = LocalEngine(["cpu"] * 2, imports=["json.tool"])
        outcomes = engine.run(Spec(Path({folder!r})), [Step("a"), Step("b")], report=unheard)
        print(*(outcome.result["setting"] for outcome in outcomes), flush=True)
"""


def test_runs_after_each_other_see_the_environment_as_it_is_then(tmp_path: Path):
    script = tmp_path / "runs.py"
    script.write_text(TWO_RUNS.format(root=str(ROOT), folder=str(tmp_path)))
    words = [sys.executable, str(script)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == [*["first"] * 4, *["second"] * 2, *["first"] * 2]


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def wait_until(true) -> None:
    deadline = time.monotonic() + GONE_WITHIN_S
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)
