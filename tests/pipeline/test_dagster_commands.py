"""Dagster's own commands, as the README gives them, in a folder made by `diffprep new`."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
import pytest
import yaml

from diffprep_assets.jobs import PARENT
from diffprep_assets.new_project import new_project
from diffprep_assets.validate.dataset import validate_dataset

if TYPE_CHECKING:
    from tests.conftest import Drawing

BIN = Path(sys.executable).parent


@pytest.fixture
def folder(
    tmp_path: Path,
    tiny_encoders: Path,
    drawing: Callable[..., "Drawing"],
    monkeypatch: pytest.MonkeyPatch,
) -> Path:
    """A new project with a recipe and pictures; its `.env` alone says where Dagster's home is."""
    folder = tmp_path / "project"
    new_project(folder)
    pictures = folder / "pictures"
    pictures.mkdir()
    for number in range(6):
        drawn = drawing(number)
        (pictures / drawn.name).write_bytes(drawn.data)
        (pictures / f"{drawn.stem}.txt").write_text(drawn.caption, "utf-8")
    recipe = {
        "source": {"type": "directory", "input_dir": "pictures"},
        "output": {"output_dir": "out", "shard_size": 4},
        "model": {"model_path": str(tiny_encoders), "t5_max_length": 16, "device": "cpu"},
        "image": {"image_size": 64},
    }
    (folder / "recipes" / "mine.yaml").write_text(yaml.safe_dump(recipe))
    for name in ("DAGSTER_HOME", "DAGSTER_EMIT_PARTITION_SUBSET_IN_PLANNED_EVENTS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("DIFFPREP_PROJECT", raising=False)
    return folder


def shell(command: str, *, folder: Path) -> None:
    """Runs a line as a person types it, with the environment's programs first on the path."""
    done = subprocess.run(
        ["bash", "-euc", command],
        cwd=folder,
        env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "PWD": str(folder)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def check_made(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[dg.DagsterRun]:
    """The dataset is whole; the runs that Dagster's home in the project remembers."""
    report = validate_dataset(folder / "out", full=True)
    assert report.ok
    assert report.facts["samples"] == 6
    monkeypatch.setenv("DAGSTER_HOME", str(folder / ".dagster"))
    with dg.DagsterInstance.get() as instance:
        runs = list(instance.get_runs())
        assert all(run.status == dg.DagsterRunStatus.SUCCESS for run in runs)
        for stage in ("encode_latents", "encode_text", "shard"):
            events = instance.fetch_materializations(
                dg.AssetKey(["mine", stage]), limit=10, ascending=True
            ).records
            keys = [record.partition_key for record in events]
            assert keys == ["g0-64-64x64-000000", "g0-64-64x64-000001"]
    return runs


# The README's third command as it is starts a process for each of five stages, four of which load
# torch: a minute on one core.
IN_PROCESS = """--config-json '{"execution": {"config": {"in_process": {}}}}'"""


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(IN_PROCESS, id="in-process"),
        pytest.param("", id="as-written", marks=pytest.mark.long),
    ],
)
def test_three_materialize_commands_make_a_dataset_from_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, options: str
):
    materialize = "dagster asset materialize -m diffprep_assets.definitions --select"
    shell(f"{materialize} mine/source_index", folder=folder)
    shell(
        f"{materialize} mine/download,mine/bucket,mine/curate,mine/shard_plan "
        '--partition-range "$(diffprep range mine parts)"',
        folder=folder,
    )
    stages = ["encode_latents", "encode_text", "shard", "energon_prepare", "validate"]
    selected = ",".join(f"mine/{stage}" for stage in stages)
    shell(
        f'{materialize} {selected} --partition-range "$(diffprep range mine shards)" {options}',
        folder=folder,
    )
    assert len(check_made(folder, monkeypatch)) == 3


@pytest.mark.long
def test_the_make_job_makes_a_dataset_from_nothing_with_one_command(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    shell("dagster job execute -m diffprep_assets.definitions -j mine_make", folder=folder)
    runs = check_made(folder, monkeypatch)
    assert len(runs) == 4
    (parent,) = (run for run in runs if run.job_name == "mine_make")
    assert {run.tags[PARENT] for run in runs if run is not parent} == {parent.run_id}
    # Who clicked the job looks at its own log: the stages' lines are there too.
    with dg.DagsterInstance.get() as instance:
        logged = [entry.user_message for entry in instance.all_logs(parent.run_id)]
    for line in ("encode_text: 2 of 2 shards to make, 6 samples", "shard: 2 shards made, 0 fresh"):
        assert any(message.startswith(line) for message in logged), line
