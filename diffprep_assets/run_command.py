"""`diffprep run`: the three runs in this process, shown as they go, summed up at the end."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from diffprep_assets.bucket.table import note_counts, other_member_counts
from diffprep_assets.dagster_home import use_dagster_home
from diffprep_assets.dataset import Dataset
from diffprep_assets.dataset_locks import run_lock
from diffprep_assets.project import Project
from diffprep_assets.recipe.formats import PREPARE_STAGE, stages_of
from diffprep_assets.recipe.load import LoadedRecipe, load_recipe
from diffprep_assets.rejects import read_rejects, summary_of
from diffprep_assets.run_report import RunReport
from diffprep_assets.shard.record import read_record
from diffprep_assets.shard.truncation import truncations
from diffprep_assets.shard_plan.skipped import skipped_by_shard
from diffprep_assets.shard_plan.splits import empty_splits
from diffprep_assets.shard_plan.table import read_head, read_shards
from diffprep_assets.source_index.table import read_index
from diffprep_resources.compute.engines import Engines
from diffprep_resources.errors import DatasetLockedError, DiffprepError
from diffprep_resources.gpu_pool.file_lease import FileLeasePool, num_devices
from diffprep_resources.progress.base import Progress


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What to run. `changes` are recipe keys as the command line gave them; `execution` what
    decides speed only. With `plan_only` the run ends with the plan, and needs no encoders."""

    project: Project
    recipe: Path
    changes: Mapping[str, object]
    execution: Mapping[str, Any]
    plan_only: bool = False

    def load(self) -> LoadedRecipe:
        """The recipe as this run sees it. Raises RecipeError."""
        return load_recipe(self.recipe, base=self.project.folder, overrides=self.changes)

    def engines(self) -> Engines:
        """What the stages run on."""
        project = self.project
        pool = FileLeasePool(
            devices=project.devices or ("auto",),
            lock_folder=project.lease_folder,
            wait_s=project.lock_wait_minutes * 60,
        )
        return Engines(pool, cpu_workers=self.execution.get("workers") or project.cpu_workers)


def run_dataset(
    request: RunRequest, progress: Progress, *, say: Callable[[str], None]
) -> RunReport:
    """The report of the run, also of one that failed. Raises DatasetLockedError at once when
    another run holds the dataset."""
    loaded, project = request.load(), request.project
    dataset = Dataset(loaded, project.storage_root, needs_encoders=not request.plan_only)
    use_dagster_home(project)
    for note in loaded.notes:
        say(f"note: {note}")
    holder = f"diffprep {'plan' if request.plan_only else 'run'} {loaded.name}"
    with run_lock(dataset.layout, holder=holder, log=say):
        error = _made(dataset, request, progress)
    return report_of(dataset, progress, error=error)


def _made(dataset: Dataset, request: RunRequest, progress: Progress) -> tuple[str, str] | None:
    """The stage that failed and why; None when the dataset is whole and valid."""
    from diffprep_assets.dataset_graph import dataset_graph
    from diffprep_assets.jobs import instance, make_dataset, set_pool_limit

    project = request.project
    try:
        with instance() as dagster_instance:
            set_pool_limit(dagster_instance, num_devices(project.devices))
            made = make_dataset(
                dataset_graph(dataset, project),
                instance=dagster_instance,
                resources={"engines": request.engines(), "progress": progress},
                encode_config={name: v for name, v in request.execution.items() if v is not None},
                plan_only=request.plan_only,
            )
    except DatasetLockedError:
        raise
    except DiffprepError as error:
        return "run", str(error)
    return made.error


def report_of(dataset: Dataset, progress: Progress, *, error: tuple[str, str] | None) -> RunReport:
    """What is on disk and what the stages did, for people and scripts."""
    layout = dataset.layout
    index = read_index(layout.source_index)
    tables = [layout.bucket(part) for part in index.parts.parts] if index else []
    listed = sum(pq.read_metadata(path).num_rows for path in tables if path.exists())
    # Until this run planned, the view of rejects is an earlier run's.
    rejects = summary_of(read_rejects(layout.rejects) if "shard_plan" in progress.summaries else ())
    finished = layout.of_rows
    records = (read_record(finished.shard_record(row.shard)) for row in read_shards(layout.shards))
    prepared = progress.summaries.get(PREPARE_STAGE[layout.format])
    head = read_head(layout.shard_plan)
    return RunReport(
        dataset=dataset.name,
        recipe_hash=dataset.loaded.recipe_hash,
        generation=head["state"]["generation"] if head else None,
        error=error,
        summaries=progress.summaries,
        listed=listed,
        written=prepared.samples.samples_out if prepared else 0,
        skipped=sum(map(len, skipped_by_shard(layout).values())) if prepared else 0,
        rejects=rejects.counts,
        first_rejects=rejects.first,
        other_files=other_member_counts(tables) + Counter(index.other_files if index else {}),
        notes=note_counts(path for path in tables if path.exists()),
        truncated=truncations(record for record in records if record is not None),
        output_dir=str(layout.output_dir),
        empty_splits=empty_splits(
            dataset.plan_settings.shares, (row.split for row in read_shards(layout.shards))
        )
        if prepared
        else (),
        stages=stages_of(dataset.recipe),
    )


def failed_before_running(name: str, error: DiffprepError) -> RunReport:
    """The report of a run that its recipe or another run kept from starting."""
    stage = "run" if isinstance(error, DatasetLockedError) else "recipe"
    return RunReport(dataset=name, recipe_hash=None, error=(stage, str(error)))
