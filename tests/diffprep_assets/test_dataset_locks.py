from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from diffprep_assets.dataset_locks import StepLocks, forget_run, run_lock, runs_that_died
from diffprep_assets.layout import Layout
from diffprep_resources.errors import DatasetLockedError


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "work", "set", tmp_path / "out")


@pytest.fixture
def step(layout: Layout) -> Callable[..., StepLocks]:
    def build(stage: str, run_id: str) -> StepLocks:
        return StepLocks(layout, stage, run_id, wait_minutes=0, log=lambda _: None)

    return build


def entered(lock: AbstractContextManager[None]) -> None:
    with lock:
        pass


def test_stages_of_parts_and_shards_go_together_and_keep_a_whole_stage_out(
    step: Callable[..., StepLocks],
):
    with (
        step("encode_latents", "run1").together(),
        step("encode_text", "run2").together(),
        pytest.raises(DatasetLockedError, match="set is in use: held by encode_"),
    ):
        entered(step("shard_plan", "run3").alone())
    with (
        step("shard_plan", "run3").alone(),
        pytest.raises(DatasetLockedError, match="held by shard_plan of set, run run3"),
    ):
        entered(step("shard", "run4").together())


def test_a_step_that_waits_says_for_whom(
    layout: Layout, step: Callable[..., StepLocks], caplog: pytest.LogCaptureFixture
):
    said: list[str] = []
    waiting = StepLocks(layout, "shard", "run2", 0.005, said.append)
    with (
        step("shard_plan", "run1").alone(),
        pytest.raises(DatasetLockedError, match="in use after waiting 0 s: held by shard_plan"),
    ):
        entered(waiting.together())
    assert len(said) == 1
    assert said[0].startswith("waiting for shard_plan of set, run run1 (process ")
    assert [record.message for record in caplog.records] == [f"shard: {said[0]}"]


def test_a_job_that_lives_holds_nothing_of_the_dataset(
    layout: Layout, step: Callable[..., StepLocks]
):
    with step("make", "run1").living():
        assert runs_that_died(layout) == []
        entered(step("shard_plan", "run2").alone())
    assert not list(layout.locks.glob("step-*"))


def test_a_run_lock_goes_beside_the_steps_and_keeps_another_run_out(
    layout: Layout, step: Callable[..., StepLocks]
):
    with run_lock(layout, holder="diffprep run set", log=lambda _: None):
        entered(step("shard", "run1").together())
        with pytest.raises(DatasetLockedError, match="held by diffprep run set"):
            entered(run_lock(layout, holder="job set_make", log=lambda _: None))
    entered(run_lock(layout, holder="job set_make", log=lambda _: None))


def test_a_lock_that_is_just_being_taken_is_nobodys_death(layout: Layout):
    path = layout.step_lock("shard", "run1")
    path.parent.mkdir(parents=True)
    path.touch()
    assert runs_that_died(layout) == []


def test_a_run_that_left_its_steps_lock_has_died_and_is_forgotten_when_asked(
    layout: Layout, step: Callable[..., StepLocks]
):
    assert runs_that_died(layout) == []
    with step("shard", "alive").together():
        # What a killed process leaves: the file, held by nobody.
        layout.step_lock("encode_text", "dead-run-id").write_text("{}")
        assert runs_that_died(layout) == ["dead-run-id"]
        forget_run(layout, "dead-run-id")
        assert runs_that_died(layout) == []
    assert runs_that_died(layout) == []
