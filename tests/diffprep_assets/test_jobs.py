"""The three runs, what becomes of killed ones, and how many steps of the pool go at once."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import dagster as dg
import pytest

from diffprep_assets.dataset_graph import dataset_graph
from diffprep_assets.dataset_locks import StepLocks
from diffprep_assets.jobs import (
    DATASET,
    PARENT,
    POOL,
    bury_dead_runs,
    make_job,
    partition_range,
    set_pool_limit,
)
from diffprep_assets.partitions import parts_of
from diffprep_assets.stop_signals import same_handlers
from diffprep_resources.compute.base import ComputeEngine
from diffprep_resources.compute.engines import Engines, Load
from diffprep_resources.gpu_pool.file_lease import FileLeasePool, num_devices

if TYPE_CHECKING:
    from tests.conftest import ProjectFolder

STUCK_S = 120


class Deadly(Engines):
    """Kills the process where encoding begins."""

    @contextmanager
    def device(
        self, load: Load, *, device: str | None = None, workers: int | None = None
    ) -> Iterator[ComputeEngine]:
        os.kill(os.getpid(), signal.SIGKILL)
        yield from ()


def make(project: "ProjectFolder", engines: type[Engines]) -> dg.ExecuteInProcessResult:
    """The `set_make` job in this process."""
    pool = FileLeasePool(devices=["cpu"], lock_folder=project.folder / ".devices", wait_s=1)
    job = make_job(dataset_graph(project.dataset(), project.project), project=project.project)
    resources = {"engines": engines(pool, cpu_workers=1)}
    with dg.DagsterInstance.get() as instance, same_handlers():
        return job.execute_in_process(instance=instance, resources=resources, raise_on_error=False)


def runs() -> list[dg.DagsterRun]:
    with dg.DagsterInstance.get() as instance:
        return list(instance.get_runs())


@pytest.mark.filterwarnings("ignore")
def test_a_make_job_that_was_killed_is_recorded_as_failed_with_its_run(project: "ProjectFolder"):
    project.write_pictures(range(2))
    project.write_recipe()
    child = os.fork()
    if child == 0:
        signal.alarm(STUCK_S)
        try:
            make(project, Deadly)
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    under_way = [run for run in runs() if not run.is_finished]
    assert {run.job_name for run in under_way} >= {"set_make"}
    assert len(under_way) == 2

    assert project.run().error is None
    after = {run.run_id: run.status.value for run in runs()}
    assert {after[run.run_id] for run in under_way} == {"FAILURE"}
    assert set(after.values()) == {"SUCCESS", "FAILURE"}
    assert not list(project.layout().locks.glob("step-*"))


def test_a_make_job_that_waits_or_works_is_not_taken_for_dead(project: "ProjectFolder"):
    project.write_recipe()
    layout = project.layout()
    with dg.DagsterInstance.get() as instance:
        alive = instance.create_run_for_job(
            make_job(dataset_graph(project.dataset(), project.project), project=project.project)
        )
        instance.report_engine_event("started", alive)
        locks = StepLocks(layout, "make", alive.run_id, 0, lambda _: None)
        with locks.living():
            assert bury_dead_runs(instance, layout) == []
        covered = instance.create_run_for_job(
            make_job(dataset_graph(project.dataset(), project.project), project=project.project),
            tags={DATASET: "set", PARENT: alive.run_id},
            status=dg.DagsterRunStatus.STARTED,
        )
        # Made under the run lock, which the caller holds now.
        assert bury_dead_runs(instance, layout) == [covered.run_id]
        found = instance.get_run_by_id(covered.run_id)
        assert found is not None
        assert found.status == dg.DagsterRunStatus.FAILURE


def test_the_make_job_fails_with_the_stage_and_its_words(project: "ProjectFolder"):
    project.write_recipe()
    result = make(project, Engines)
    assert not result.success
    (failure,) = [event for event in result.all_events if event.is_step_failure]
    failed = failure.step_failure_data.user_failure_data
    assert failed is not None
    words = f"source.input_dir must be a folder that exists, got {project.pictures}"
    assert (failed.description or "").startswith(f"source_index: {words}")


@pytest.mark.parametrize(
    ("devices", "steps"), [((), 1), (("cpu",), 1), (("cuda:0", "cuda:1", "cuda:2"), 3)]
)
@pytest.mark.usefixtures("project")
def test_the_pool_takes_as_many_steps_as_the_project_names_devices(
    devices: tuple[str, ...], steps: int
):
    with dg.DagsterInstance.get() as instance:
        set_pool_limit(instance, num_devices(devices))
        set_pool_limit(instance, num_devices(devices))
        limits = {info.name: info.limit for info in instance.event_log_storage.get_pool_limits()}
        assert limits == {POOL: max(steps, num_devices(devices))}


@pytest.mark.usefixtures("project")
def test_a_range_follows_the_order_of_registration():
    with dg.DagsterInstance.get() as instance:
        assert partition_range(instance, "set", "parts") is None
        name = parts_of("set").name or ""
        instance.add_dynamic_partitions(name, ["p00000", "p00001"])
        instance.add_dynamic_partitions(name, ["p00002"])
        assert partition_range(instance, "set", "parts") == ("p00000", "p00002")
