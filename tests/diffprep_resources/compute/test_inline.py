import errno
from dataclasses import dataclass
from typing import Any

import pytest

from diffprep_resources.compute.base import Report, Worker, unheard
from diffprep_resources.compute.inline import InlineEngine


@dataclass(frozen=True)
class Job:
    key: str
    num_samples: int = 1


class Recorder(Worker):
    """Fails at tasks named for an error; tells what was called, in order."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def build(self) -> Worker:
        return self

    def setup(self, device: str) -> None:
        self.calls.append(f"setup {device}")

    def process(self, task: Any, report: Report) -> Any:
        self.calls.append(task.key)
        report(task.num_samples)
        if task.key == "bad":
            raise ValueError("this one is bad")
        if task.key == "silent":
            raise KeyError
        if task.key == "full":
            raise OSError(errno.ENOSPC, "No space left on device")
        if task.key == "gone":
            raise FileNotFoundError(errno.ENOENT, "No such file", "x.jpg")
        return task.key.upper()

    def close(self) -> None:
        self.calls.append("close")


def outcomes(worker: Recorder, *keys: str) -> dict[str, tuple[Any, str | None]]:
    engine = InlineEngine(device="cpu")
    found = engine.run(worker, [Job(key) for key in keys], report=unheard)
    return {outcome.key: (outcome.result, outcome.error) for outcome in found}


def test_one_worker_is_set_up_does_every_task_and_is_closed():
    worker = Recorder()
    assert outcomes(worker, "a", "b") == {"a": ("A", None), "b": ("B", None)}
    assert worker.calls == ["setup cpu", "a", "b", "close"]


def test_a_failed_task_is_told_in_words_and_the_others_go_on():
    worker = Recorder()
    found = outcomes(worker, "bad", "silent", "gone", "b")
    assert found["bad"] == (None, "this one is bad")
    assert found["silent"] == (None, "KeyError")
    assert "x.jpg" in (found["gone"][1] or "")
    assert found["b"] == ("B", None)
    assert worker.calls[-1] == "close"


def test_a_full_disk_ends_the_stage_and_the_worker_is_closed():
    worker = Recorder()
    with pytest.raises(OSError, match="No space"):
        outcomes(worker, "a", "full", "b")
    assert worker.calls == ["setup cpu", "a", "full", "close"]


def test_without_tasks_no_model_is_loaded():
    worker = Recorder()
    assert outcomes(worker) == {}
    assert worker.calls == []
