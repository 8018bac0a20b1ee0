"""The code location: every recipe's assets, checks, jobs and schedules."""

from pathlib import Path

import dagster as dg

from diffprep_assets.dataset import Dataset
from diffprep_assets.dataset_graph import DatasetGraph, broken_recipe, dataset_graph
from diffprep_assets.jobs import make_job, schedule_of
from diffprep_assets.project import Project, find_project
from diffprep_assets.recipe.load import load_recipe
from diffprep_assets.recipe.names import colliding_names
from diffprep_resources.compute.resource import EnginesResource
from diffprep_resources.errors import SettingError
from diffprep_resources.progress.resource import LogProgressResource


def project_definitions(project: Project) -> dg.Definitions:
    """Everything that Dagster shows of the project. A recipe that cannot be read is shown as
    broken, as are those whose names are one to Dagster; the others load."""
    files = project.recipe_files()
    alike = colliding_names([path.stem for path in files])
    assets: list[dg.AssetsDefinition | dg.AssetSpec] = []
    jobs: list[dg.JobDefinition] = []
    schedules: list[dg.ScheduleDefinition] = []
    for names in alike:
        named = " and ".join(names)
        message = f"{project.recipes}: Dagster cannot tell apart {named}; rename one"
        assets.append(broken_recipe(names[0], message))
    for path in files:
        if any(path.stem in names for names in alike):
            continue
        try:
            graph = recipe_graph(path, project)
        except SettingError as error:
            assets.append(broken_recipe(path.stem, str(error)))
            continue
        job = make_job(graph, project=project)
        schedule = schedule_of(graph, job)
        assets.extend(graph.assets)
        jobs.append(job)
        if schedule is not None:
            schedules.append(schedule)
    return dg.Definitions(
        assets=assets,
        jobs=jobs,
        schedules=schedules,
        resources={
            "engines": EnginesResource(
                devices=list(project.devices),
                lock_folder=str(project.lease_folder),
                wait_minutes=project.lock_wait_minutes,
                cpu_workers=project.cpu_workers,
            ),
            "progress": LogProgressResource(),
        },
    )


def recipe_graph(path: Path, project: Project) -> DatasetGraph:
    """The assets of one recipe. Raises RecipeError."""
    dataset = Dataset(load_recipe(path, base=project.folder), project.storage_root)
    return dataset_graph(dataset, project)


# Dagster asks twice as it loads a code location, and fifty recipes take a second to build.
_built: dict[str, dg.Definitions] = {}


@dg.definitions
def definitions() -> dg.Definitions:
    """The project that the working folder lies in, or that DIFFPREP_PROJECT names."""
    project = find_project(Path.cwd())
    stats = [path.stat() for path in project.recipe_files()]
    state = repr((project, [(stat.st_ino, stat.st_size, stat.st_mtime_ns) for stat in stats]))
    if state not in _built:
        _built.clear()
        _built[state] = project_definitions(project)
    return _built[state]
