"""`diffprep range`: partitions of a dataset, or a slice of them, as Dagster takes them."""

import re
from pathlib import Path
from typing import Annotated, Literal

import typer

from diffprep_assets.console import Name, ProjectDir, explained
from diffprep_assets.dagster_home import use_dagster_home
from diffprep_assets.project import find_project
from diffprep_assets.recipe.load import load_recipe
from diffprep_assets.stage_inputs import how_to_make
from diffprep_resources.errors import DiffprepError, SettingError


@explained
def partition_range(
    name: Name,
    unit: Annotated[Literal["parts", "shards"], typer.Argument()],
    part: Annotated[
        str, typer.Option("--slice", help="2/4: the second of four even slices")
    ] = "1/1",
    project: ProjectDir = None,
) -> None:
    """Print FIRST...LAST for `dagster asset materialize --partition-range`."""
    from diffprep_assets import jobs

    number, of = _numbers(part)
    found = find_project(Path.cwd(), project)
    dataset = load_recipe(found.recipe_path(name), base=found.folder).name
    use_dagster_home(found)
    with jobs.instance() as instance:
        keys = jobs.partition_keys(instance, dataset, unit)
    if not keys:
        stage = "source_index" if unit == "parts" else "shard_plan"
        raise DiffprepError(
            f"{dataset}: no {unit} are registered; run {how_to_make(dataset, stage)} first"
        )
    if of > len(keys):
        raise SettingError(f"--slice {part}: {dataset} has {len(keys)} {unit}, fewer than {of}")
    first, after = len(keys) * (number - 1) // of, len(keys) * number // of
    print(f"{keys[first]}...{keys[after - 1]}")


def _numbers(text: str) -> tuple[int, int]:
    """Which slice of how many."""
    match = re.fullmatch(r"([0-9]+)/([0-9]+)", text)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise SettingError(f"--slice must be NUMBER/OF with NUMBER from 1 to OF, got {text!r}")
    return int(match[1]), int(match[2])
