"""Runs killed at any moment, in any way: the next one goes on, and the end is as if in peace."""

import json
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import pyarrow.parquet as pq
import pytest
import xxhash

from diffprep_assets.encoded_rows import whole_record
from diffprep_assets.shard.record import read_samples
from diffprep_assets.validate.dataset import validate_dataset
from diffprep_resources.storage.row_file import read_header

if TYPE_CHECKING:
    from tests.conftest import Drawing
    from tests.survival.conftest import Workplace

Draw = Callable[..., "Drawing"]
STARTS_WITHIN_S = 120.0
ENDS_WITHIN_S = 120.0


def fill(workplace: "Workplace", draw: Draw, *, pictures: int, shard_size: int) -> None:
    for folder in ("images", "captions"):
        (workplace.pictures / folder).mkdir(parents=True)
    for number in range(pictures):
        drawing = draw(number % 16, size=(64 + number % 7, 48 + number % 5))
        name = f"{number:04d}{Path(drawing.name).suffix}"
        (workplace.pictures / "images" / name).write_bytes(drawing.data)
        text = workplace.pictures / "captions" / f"{number:04d}.txt"
        text.write_text(f"{drawing.caption}, {number}", "utf-8")
    # One is left out for good, so that the counts have something to add up.
    (workplace.pictures / "images" / "broken.jpg").write_bytes(b"\xff\xd8 no picture")
    workplace.write_recipe(output={"shard_size": shard_size}, image={"image_size": 32})


@dataclass
class Run:
    """A `diffprep run` under way in a process group of its own."""

    workplace: "Workplace"
    process: subprocess.Popen

    def wait_for_start(self) -> None:
        """Until it holds the dataset: what comes before is the import of libraries."""
        lock = self.workplace.work / ".locks" / "run.lock"
        deadline = time.monotonic() + STARTS_WITHIN_S
        while not lock.exists() and self.process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def ended_within(self, seconds: float) -> bool:
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def workers(self) -> list[int]:
        """Its worker processes."""
        found = []
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                parent = int(stat.read_text().rpartition(")")[2].split()[1])
                words = stat.with_name("cmdline").read_bytes()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if parent == self.process.pid and b"spawn_main" in words:
                found.append(int(stat.parent.name))
        return found

    def ended(self) -> tuple[int, str, str]:
        """Exit code and what it said, once the whole group is gone."""
        out, err = self.process.communicate(timeout=ENDS_WITHIN_S)
        deadline = time.monotonic() + ENDS_WITHIN_S
        while group_is_alive(self.process.pid):
            assert time.monotonic() < deadline, "a worker outlives its run"
            time.sleep(0.05)
        return self.process.returncode, out, err


def group_is_alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def start(workplace: "Workplace", *options: str) -> Run:
    return Run(workplace, workplace.command("run", "set", "--json", *options))


def in_peace(workplace: "Workplace", *options: str) -> tuple[float, dict[str, Any]]:
    """A run that nobody disturbs: its seconds from when it holds the dataset, and its report."""
    run = start(workplace, *options)
    run.wait_for_start()
    began = time.monotonic()
    code, out, err = run.ended()
    assert code == 0, err
    return time.monotonic() - began, json.loads(out)


def kill_group(run: Run) -> None:
    os.killpg(run.process.pid, signal.SIGKILL)


def kill_step(run: Run) -> None:
    run.process.kill()


def terminate(run: Run) -> None:
    run.process.terminate()


def kill_worker(run: Run) -> None:
    """One worker, or the whole where there is none just now."""
    workers = run.workers()
    if workers:
        os.kill(workers[0], signal.SIGKILL)
    else:
        kill_group(run)


def nothing_torn_counts_as_whole(workplace: "Workplace") -> None:
    """Every file under its final name is readable, every finished tar is as its record says."""
    layout = workplace.dataset().layout
    for path in workplace.work.rglob("*"):
        if path.name.startswith(".writing-") or ".next." in path.name:
            continue
        if path.suffix == ".safetensors":
            assert read_header(path) is not None, path
        elif path.suffix == ".parquet":
            pq.read_table(path)
        elif path.suffix == ".json":
            json.loads(path.read_bytes())
    for path in (workplace.work / "shards").glob("*.tar"):
        record = whole_record(layout, path.stem)
        if path.name.startswith(".writing-") or record is None:
            continue
        assert xxhash.xxh3_128_hexdigest(path.read_bytes()) == record.digest
        assert len(read_samples(layout.shard_samples(path.stem))) == record.num_samples


def log_is_settled(workplace: "Workplace", monkeypatch: pytest.MonkeyPatch) -> None:
    """No run that is over counts as under way, and no slot of the pool is held."""
    monkeypatch.setenv("DAGSTER_HOME", str(workplace.folder / ".dagster"))
    with dg.DagsterInstance.get() as instance:
        statuses = {run.status.value for run in instance.get_runs()}
        assert statuses <= {"SUCCESS", "FAILURE", "CANCELED"}
        storage = instance.event_log_storage
        for pool in storage.get_concurrency_keys():
            info = storage.get_concurrency_info(pool)
            assert (info.active_slot_count, info.pending_step_count) == (0, 0)


KILLS = {
    "group": kill_group,
    "step": kill_step,
    "terminate": terminate,
    "worker": kill_worker,
}


@dataclass(frozen=True)
class Plan:
    pictures: int
    shard_size: int
    kills: int
    options: tuple[str, ...]
    seed: int


@pytest.mark.parametrize(
    "plan",
    [
        pytest.param(Plan(12, 3, 6, (), 1), id="6-times"),
        pytest.param(
            Plan(300, 20, 20, ("--workers", "2"), 2), id="20-times", marks=pytest.mark.long
        ),
    ],
)
def test_killed_at_random_moments_the_dataset_is_that_of_a_run_in_peace(
    workplace: "Workplace", drawing: Draw, monkeypatch: pytest.MonkeyPatch, plan: Plan
):
    fill(workplace, drawing, pictures=plan.pictures, shard_size=plan.shard_size)
    seconds, report = in_peace(workplace, *plan.options)
    expected, listed = workplace.tar_digests(), report["listed"]
    published = {path.name: path.read_bytes() for path in workplace.output.glob("*.tar")}
    start_over(workplace)

    rng, kills, left = random.Random(plan.seed), 0, seconds
    while kills < plan.kills:
        if left < 0.1 * seconds:
            start_over(workplace)
            left = seconds
        kill = list(KILLS.values())[kills % len(KILLS)]
        run = start(workplace, *plan.options)
        run.wait_for_start()
        delay = rng.uniform(0, left)
        left -= delay
        if not run.ended_within(delay):
            kill(run)
            kills += 1
        code = run.ended()[0]
        nothing_torn_counts_as_whole(workplace)
        if code == 0:
            # A moment too late, or in spite of a worker's death.
            assert workplace.tar_digests() == expected
            left = 0

    _, report = in_peace(workplace, *plan.options)
    assert report["ok"]
    assert report["listed"] == listed == report["written"] + sum(report["rejects"].values())
    assert workplace.tar_digests() == expected
    names = {path.name: path.read_bytes() for path in workplace.output.glob("*.tar")}
    assert names == published
    assert workplace.leftovers() == []
    assert list((workplace.work / ".locks").glob("step-*")) == []
    assert validate_dataset(workplace.output, full=True).ok
    log_is_settled(workplace, monkeypatch)


def start_over(workplace: "Workplace") -> None:
    """No dataset, but Dagster's log of the runs before."""
    shutil.rmtree(workplace.folder / "work")
    shutil.rmtree(workplace.folder / "out", ignore_errors=True)


@pytest.mark.parametrize(
    "moment",
    [0.3, *(pytest.param(tenths / 10, marks=pytest.mark.long) for tenths in range(0, 60, 4))],
)
def test_asked_to_stop_a_run_stops_soon_and_says_so(
    workplace: "Workplace", drawing: Draw, monkeypatch: pytest.MonkeyPatch, moment: float
):
    fill(workplace, drawing, pictures=16, shard_size=2)
    run = start(workplace)
    run.wait_for_start()
    time.sleep(moment)
    run.process.terminate()
    asked = time.monotonic()
    code, _, err = run.ended()
    assert time.monotonic() - asked < 15
    if code:
        assert code in (1, 130)
        assert "stopped; what is finished is kept" in err
    else:
        # It was about to end.
        assert validate_dataset(workplace.output).ok
    assert [name for name in workplace.leftovers() if ".writing-" in name] == []
    nothing_torn_counts_as_whole(workplace)
