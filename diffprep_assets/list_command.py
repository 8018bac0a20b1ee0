"""`diffprep list`: every recipe of the project, and every dataset in its storage root."""

import json
from collections.abc import Iterator
from pathlib import Path

from rich.markup import escape
from rich.table import Table

from diffprep_assets.console import AsJson, ProjectDir, explained, out
from diffprep_assets.dataset import Dataset
from diffprep_assets.dataset_state import FilesToLookAt
from diffprep_assets.dataset_summary import (
    DatasetSummary,
    layout_without_recipe,
    summary_of_dataset,
    summary_without_recipe,
)
from diffprep_assets.project import Project, find_project
from diffprep_assets.quantities import bytes_text
from diffprep_assets.recipe.load import load_recipe
from diffprep_assets.run_report import in_one_line
from diffprep_resources.errors import DiffprepError, SettingError

# Looking at a file takes about 20 microseconds; this many, half a second.
SOURCE_FILES = 20_000
SHOWN_WHY = 3
STYLES = {
    "fresh": "green",
    "stale": "yellow",
    "missing": "cyan",
    "failed": "bold red",
    "running": "bold blue",
    "broken": "bold red",
    "no recipe": "magenta",
}


@explained
def list_datasets(project: ProjectDir = None, as_json: AsJson = False) -> None:
    """List every dataset of the project: its state, size, and when it was made. Runs nothing."""
    found = find_project(Path.cwd(), project)
    datasets = list(_summaries(found))
    if as_json:
        content = [dataset.as_json() for dataset in datasets]
        print(json.dumps({"storage_root": str(found.storage_root), "datasets": content}))
        return
    if not datasets:
        out.print(
            f"no recipe in {found.recipes} and no dataset in {found.storage_root}; "
            f"`diffprep init NAME --from FOLDER` writes a recipe",
            soft_wrap=True,
            highlight=False,
        )
        return
    out.print(_table(datasets))
    for line in _reasons(datasets):
        out.print(line, soft_wrap=True, highlight=False)


def _summaries(project: Project) -> Iterator[DatasetSummary]:
    """Recipes first, sorted by name, then what is in the storage root besides."""
    looks = FilesToLookAt(SOURCE_FILES)
    names = set()
    for path in project.recipe_files():
        names.add(path.stem)
        try:
            loaded = load_recipe(path, base=project.folder)
            yield summary_of_dataset(Dataset(loaded, project.storage_root), looks)
        except SettingError as error:
            why = tuple(str(error).splitlines())
            yield DatasetSummary(path.stem, "broken", why, recipe=str(path))
        except (DiffprepError, OSError, ValueError, KeyError) as error:
            why = (f"its files in {project.storage_root / path.stem} cannot be read: {error}",)
            yield DatasetSummary(path.stem, "broken", why, recipe=str(path))
    folders = sorted(project.storage_root.iterdir()) if project.storage_root.is_dir() else []
    for folder in folders:
        layout = layout_without_recipe(project.storage_root, folder.name)
        if layout is not None and folder.name not in names:
            yield summary_without_recipe(layout)


def _table(datasets: list[DatasetSummary]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("dataset", overflow="fold")
    table.add_column("state", no_wrap=True)
    several = any(dataset.formats not in ((), ("energon",)) for dataset in datasets)
    if several:
        table.add_column("formats")
    for name in ("samples", "shards", "output", "work"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("made", no_wrap=True)
    for dataset in datasets:
        counts = (dataset.samples, dataset.shards)
        sizes = (dataset.output_bytes, dataset.work_bytes)
        table.add_row(
            escape(dataset.dataset),
            f"[{STYLES[dataset.state]}]{dataset.state}[/]",
            *([", ".join(dataset.formats)] if several else []),
            *("" if count is None else f"{count:,}" for count in counts),
            *(bytes_text(size) if size else "" for size in sizes),
            dataset.made or "",
        )
    return table


def _reasons(datasets: list[DatasetSummary]) -> Iterator[str]:
    """Below the table: why each is not fresh."""
    shown = [dataset for dataset in datasets if dataset.why]
    if shown:
        yield ""
    for dataset in shown:
        more = len(dataset.why) - SHOWN_WHY
        words = [in_one_line(why) for why in dataset.why[:SHOWN_WHY]]
        if more > 0:
            words.append(f"and {more} more (`diffprep status {dataset.dataset}`)")
        style = STYLES[dataset.state]
        yield f"[{style}]{escape(dataset.dataset)}[/]: {escape('; '.join(words))}"
