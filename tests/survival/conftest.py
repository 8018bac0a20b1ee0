"""A project that is made again and again: quick runs in this process, real runs in others."""

import gc
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import xxhash
import yaml
from typer.testing import CliRunner, Result

from diffprep_assets.cli import app
from diffprep_assets.dataset import Dataset
from diffprep_assets.dataset_graph import dataset_graph
from diffprep_assets.dataset_locks import run_lock
from diffprep_assets.forecast import Forecast, forecast
from diffprep_assets.jobs import make_dataset
from diffprep_assets.project import Project, find_project
from diffprep_assets.recipe.load import load_recipe
from diffprep_assets.run_command import report_of
from diffprep_assets.run_report import RunReport
from diffprep_assets.shard_plan.table import read_shards
from diffprep_resources.compute.engines import Engines
from diffprep_resources.gpu_pool.file_lease import FileLeasePool
from diffprep_resources.progress.silent import SilentProgress

NAME = "set"
ROOT = Path(__file__).parents[2]
COMMAND = "from diffprep_assets.cli import main; main()"


@dataclass
class Workplace:
    """A project folder with one recipe, `set`. `run` makes its dataset in this process, with
    Dagster's log in memory: what is on disk alone decides what is done."""

    folder: Path
    encoders: Path

    @cached_property
    def instance(self) -> dg.DagsterInstance:
        """One log for all runs of this workplace: making its tables takes a tenth of a second."""
        return dg.DagsterInstance.ephemeral()

    @property
    def project(self) -> Project:
        return find_project(self.folder, self.folder)

    @property
    def pictures(self) -> Path:
        return self.folder / "pictures"

    @property
    def work(self) -> Path:
        return self.folder / "work" / NAME

    @property
    def output(self) -> Path:
        return self.folder / "out" / NAME

    def write_recipe(self, **sections: Mapping[str, Any]) -> None:
        """Squares of 64 pixels from `pictures/`, four to a shard, with `sections` over that."""
        content: dict[str, dict[str, Any]] = {
            "source": {"type": "directory", "input_dir": "pictures"},
            "output": {"output_dir": f"out/{NAME}", "shard_size": 4},
            "model": {
                "model_path": str(self.encoders),
                "precision": "fp32",
                "t5_max_length": 24,
                "batch_size": 4,
                "device": "cpu",
            },
            "image": {"image_size": 64},
        }
        for section, values in sections.items():
            both = values if section == "source" else {**content.get(section, {}), **values}
            content[section] = {key: value for key, value in both.items() if value is not None}
        path = self.folder / "recipes" / f"{NAME}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump(content))

    def dataset(self, changes: Mapping[str, object] | None = None) -> Dataset:
        path = self.folder / "recipes" / f"{NAME}.yaml"
        loaded = load_recipe(path, base=self.folder, overrides=changes)
        return Dataset(loaded, self.project.storage_root)

    def forecast(self, changes: Mapping[str, object] | None = None) -> Forecast:
        return forecast(self.dataset(changes))

    def run(
        self,
        changes: Mapping[str, object] | None = None,
        *,
        engines: Engines | None = None,
        **encode_config: Any,
    ) -> RunReport:
        """The report of a run; `engines` are this process alone unless given."""
        dataset, progress = self.dataset(changes), SilentProgress()
        resources = {"engines": engines or self.engines(1), "progress": progress}
        with run_lock(dataset.layout, holder="a test", log=lambda _: None):
            made = make_dataset(
                dataset_graph(dataset, self.project),
                instance=self.instance,
                resources=resources,
                encode_config=encode_config,
            )
        return report_of(dataset, progress, error=made.error)

    def engines(self, cpu_workers: int) -> Engines:
        pool = FileLeasePool(devices=("cpu",), lock_folder=self.folder / ".devices", wait_s=60)
        return Engines(pool, cpu_workers=cpu_workers)

    def tar_digests(self) -> dict[str, str]:
        """The digest of each finished tar's bytes, by plan shard."""
        layout = self.dataset().layout
        return {
            shard.shard: xxhash.xxh3_128_hexdigest(layout.shard_file(shard.shard).read_bytes())
            for shard in read_shards(layout.shards)
        }

    def leftovers(self) -> list[str]:
        """Files that a finished run leaves nowhere: half-written ones, unsettled commits."""
        return [
            path.relative_to(self.folder).as_posix()
            for root in (self.folder / "work", self.folder / "out")
            for path in root.rglob("*")
            if path.name.startswith(".writing-") or ".next." in path.name
        ]

    def command(self, *words: str, **options: Any) -> subprocess.Popen:
        """A `diffprep` command in a process group of its own, with the project's own Dagster."""
        return subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", COMMAND, *words],
            cwd=self.folder,
            env=self.environment(),
            start_new_session=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )

    def environment(self) -> dict[str, str]:
        left_out = {"DAGSTER_HOME", "DIFFPREP_PROJECT"}
        kept = {name: value for name, value in os.environ.items() if name not in left_out}
        return kept | {
            "DAGSTER_HOME": str(self.folder / ".dagster"),
            "DAGSTER_EMIT_PARTITION_SUBSET_IN_PLANNED_EVENTS": "1",
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": str(ROOT),
            "COLUMNS": "400",
        }

    def save(self, name: str) -> None:
        """Keep the work and the output as they are under `name`, for `restore`."""
        for part in ("work", "out"):
            shutil.copytree(self.folder / part, self.folder / "saved" / name / part)

    def restore(self, name: str) -> None:
        """The work and the output as `save` kept them, times included."""
        for part in ("work", "out"):
            shutil.rmtree(self.folder / part, ignore_errors=True)
            shutil.copytree(self.folder / "saved" / name / part, self.folder / part)


def new_workplace(folder: Path, encoders: Path, home: Path) -> Workplace:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "dagster_project.toml").write_text('storage_root = "work"\n')
    shutil.copytree(home, folder / ".dagster")
    return Workplace(folder, encoders)


@pytest.fixture(scope="session")
def workplaces(
    tmp_path_factory: pytest.TempPathFactory, tiny_encoders: Path, new_dagster_home: Path
) -> Callable[[str], Workplace]:
    """Makes an empty workplace that may be shared by the tests of this process."""

    def make(name: str) -> Workplace:
        return new_workplace(tmp_path_factory.mktemp(name), tiny_encoders, new_dagster_home)

    return make


@pytest.fixture
def workplace(tmp_path: Path, tiny_encoders: Path, new_dagster_home: Path) -> Workplace:
    """An empty workplace of the test's own."""
    return new_workplace(tmp_path / "project", tiny_encoders, new_dagster_home)


@pytest.fixture
def diffprep(workplace: Workplace, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """The command in this process, in the workplace's folder."""

    def invoke(*words: str) -> Result:
        monkeypatch.chdir(workplace.folder)
        for name, value in workplace.environment().items():
            monkeypatch.setenv(name, value)
        return CliRunner().invoke(app, list(words))

    return invoke


@pytest.fixture(autouse=True)
def energon_collects_no_garbage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Energon does so twice a pass: 0.25 s over all that the tests' imports left."""
    monkeypatch.setattr(gc, "collect", lambda *_: 0)


@pytest.fixture(scope="session")
def worked_on() -> Callable[[RunReport], dict[str, tuple[int, int]]]:
    """What a run redid of parts and shards: partitions made, and samples worked on, by stage."""

    def of(report: RunReport) -> dict[str, tuple[int, int]]:
        assert report.error is None, report.error
        return {
            stage: (summary.done, summary.samples.encoded)
            for stage in report.stages
            if (summary := report.summaries[stage]).unit is not None and summary.done
        }

    return of
