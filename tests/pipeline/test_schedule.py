"""A recipe's schedule makes its dataset anew: what a tick starts, and whom it waits for."""

import datetime
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest

from diffprep_assets.dataset_locks import run_lock
from diffprep_assets.definitions import project_definitions

if TYPE_CHECKING:
    from tests.conftest import ProjectFolder

Read = Callable[..., dict[str, Any]]
HELD_S = 60
WAITING = "waiting for job set_make, run 1234"
TICK_S = 300


def tick(project: "ProjectFolder", instance: dg.DagsterInstance) -> dg.RunRequest:
    """What the schedule of the code location asks for when its time comes."""
    repository = project_definitions(project.project).get_repository_def()
    schedule = repository.get_schedule_def("set_make_schedule")
    now = datetime.datetime(2026, 1, 1, 3, tzinfo=datetime.UTC)
    context = dg.build_schedule_context(instance=instance, scheduled_execution_time=now)
    requests = list(schedule.evaluate_tick(context).run_requests or ())
    assert (schedule.job_name, len(requests)) == ("set_make", 1)
    return requests[0]


def run_job(project: "ProjectFolder", instance: dg.DagsterInstance, request: dg.RunRequest) -> None:
    """The job that a tick starts, in this process."""
    repository = project_definitions(project.project).get_repository_def()
    job = repository.get_job("set_make")
    assert job.execute_in_process(instance=instance, tags=request.tags).success


def lines_of_make_jobs() -> list[str]:
    """What make jobs said of waiting."""
    with dg.DagsterInstance.get() as instance:
        runs = instance.get_runs(dg.RunsFilter(job_name="set_make"))
        entries = [entry for run in runs for entry in instance.all_logs(run.run_id)]
    return [entry.message for entry in entries if entry.message.startswith(WAITING)]


def written(project: "ProjectFolder") -> dict[str, int]:
    """When each finished tar was written."""
    folder = project.layout().shard_file("x").parent
    return {path.stem: path.stat().st_mtime_ns for path in folder.glob("*.tar")}


def test_a_tick_waits_for_the_run_before_it_then_rewrites_the_new_pictures_shard_alone(
    project: "ProjectFolder", read_samples: Read
):
    project.write_pictures(range(6))
    project.write_recipe(schedule="0 3 * * *")
    assert project.run().ok
    before = written(project)
    project.write_pictures([6])

    layout = project.layout()
    holding = threading.Event()

    def other_run() -> None:
        with run_lock(layout, holder="job set_make, run 1234", log=lambda _: None):
            holding.set()
            deadline = time.monotonic() + HELD_S
            while not lines_of_make_jobs() and time.monotonic() < deadline:
                time.sleep(0.1)

    other = threading.Thread(target=other_run)
    other.start()
    assert holding.wait(10)
    with dg.DagsterInstance.get() as instance:
        run_job(project, instance, tick(project, instance))
    other.join()

    assert len(lines_of_make_jobs()) == 1
    after = written(project)
    assert [shard for shard in after if after[shard] != before[shard]] == ["g0-64-64x64-000001"]
    assert "images/p006.png" in read_samples(layout.output_dir)


def test_a_tick_that_waited_in_vain_says_for_whom(project: "ProjectFolder"):
    settings = project.folder / "dagster_project.toml"
    settings.write_text(settings.read_text() + "lock_wait_minutes = 0\n")
    project.write_recipe(schedule="0 3 * * *")
    held = run_lock(project.layout(), holder="diffprep run set", log=lambda _: None)
    with (
        dg.DagsterInstance.get() as instance,
        held,
        pytest.raises(Exception, match="set is in use: held by diffprep run set"),
    ):
        run_job(project, instance, tick(project, instance))


@pytest.mark.long
def test_the_daemon_makes_the_dataset_when_the_schedules_time_comes(
    project: "ProjectFolder", read_samples: Read
):
    project.write_pictures(range(6))
    project.write_recipe(schedule="* * * * *")
    assert project.run().ok
    before = written(project)
    project.write_pictures([6])
    log = project.folder / "daemon.log"
    command = [sys.executable, "-m", "dagster._daemon", "run", "-m", "diffprep_assets.definitions"]
    with log.open("wb") as output:
        daemon = subprocess.Popen(
            command,
            cwd=project.folder,
            env={**os.environ, "PWD": str(project.folder)},
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + TICK_S
        while not ended_well():
            assert daemon.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(1)
    finally:
        stop(daemon)
    after = written(project)
    assert [shard for shard in after if after[shard] != before[shard]] == ["g0-64-64x64-000001"]
    assert "images/p006.png" in read_samples(project.layout().output_dir)


def ended_well() -> bool:
    """Whether a run that the schedule started has ended well."""
    with dg.DagsterInstance.get() as instance:
        runs = instance.get_runs(dg.RunsFilter(job_name="set_make"))
        assert not any(run.status == dg.DagsterRunStatus.FAILURE for run in runs)
        done = [run for run in runs if run.status == dg.DagsterRunStatus.SUCCESS]
    return any(run.tags.get("dagster/schedule_name") == "set_make_schedule" for run in done)


def stop(daemon: "subprocess.Popen[bytes]") -> None:
    os.killpg(daemon.pid, signal.SIGTERM)
    try:
        daemon.wait(60)
    finally:
        if daemon.poll() is None:
            os.killpg(daemon.pid, signal.SIGKILL)
