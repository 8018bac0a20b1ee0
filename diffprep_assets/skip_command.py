"""`diffprep skip` and `diffprep unskip`: who is kept from trainers, with no shard written anew."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from diffprep_assets.console import AsJson, Name, ProjectDir, err, explained, out
from diffprep_assets.dataset import Dataset
from diffprep_assets.project import Project, find_project
from diffprep_assets.recipe.load import load_recipe
from diffprep_assets.run_and_show import brought_up_to_date
from diffprep_assets.run_report import RunReport, in_one_line
from diffprep_assets.shard_plan.table import read_head
from diffprep_assets.skip_lists.matches import ListMatches, list_matches
from diffprep_assets.skip_lists.report import (
    match_json,
    match_lines,
    run_lines,
    skip_lines,
    warnings_now,
)
from diffprep_assets.skip_lists.stored import (
    StoredList,
    list_from_file,
    remove_list,
    store_list,
    stored_lists,
)

NoRun = Annotated[
    bool, typer.Option("--no-run", help="only note it; the next run takes it into account")
]
NOTED = "Noted; the next `diffprep run {name}` takes it into account."


@explained
def skip(  # noqa: PLR0913 (an option each)
    name: Name,
    file: Annotated[
        Path,
        typer.Option("--list", help="text or parquet of source keys, sample ids or digests"),
    ],
    reason: Annotated[str, typer.Option("--reason", help="why, for `diffprep rejects`")] = "",
    list_name: Annotated[
        str | None, typer.Option("--name", help="what the list is called; else as its file")
    ] = None,
    no_run: NoRun = False,
    project: ProjectDir = None,
    as_json: AsJson = False,
) -> None:
    """Keep the samples of a list from trainers; written ones stay written, and are passed over."""
    found = find_project(Path.cwd(), project)
    dataset = _dataset(found, name)
    dataset.claim()
    stored = list_from_file(file, name=list_name, reason=reason)
    replaces = store_list(dataset.layout, stored)
    # Storing a list before the first run is no wish to encode everything now.
    waits = no_run or read_head(dataset.layout.shard_plan) is None
    try:
        report = None if waits else brought_up_to_date(found, name, as_json=as_json)
    except typer.Exit:
        words = f"list {stored.name} is stored; `diffprep unskip {name} {stored.name}` forgets it"
        err.print(words, soft_wrap=True, highlight=False, markup=False)
        raise
    matches = list_matches(dataset.layout, stored.entries)
    if as_json:
        _print_json(dataset, stored.name, matches, report, replaced=replaces)
        return
    if replaces:
        out.print(f"list {stored.name} takes the place of that of the same name", highlight=False)
    _show(dataset, [*match_lines(stored.name, matches)], report)


@explained
def unskip(
    name: Name,
    list_name: Annotated[
        str | None, typer.Argument(metavar="[LIST]", help="the list to forget; without, all named")
    ] = None,
    no_run: NoRun = False,
    project: ProjectDir = None,
    as_json: AsJson = False,
) -> None:
    """Forget a stored skip list, so that its samples are served again; or say which there are."""
    found = find_project(Path.cwd(), project)
    dataset = _dataset(found, name)
    if list_name is None:
        _show_lists(dataset, as_json=as_json)
        return
    removed = remove_list(dataset.layout, list_name)
    waits = no_run or read_head(dataset.layout.shard_plan) is None
    report = None if waits else brought_up_to_date(found, name, as_json=as_json)
    matches = list_matches(dataset.layout, removed.entries)
    if as_json:
        _print_json(dataset, removed.name, matches, report)
        return
    _show(dataset, [f"list {removed.name} is forgotten", *_after_unskip(matches)], report)


def _after_unskip(found: ListMatches) -> list[str]:
    held = len(found.skipped) + found.left_out
    words = f"{len(found.served):,} of its {len(found.samples):,} samples are served"
    return [f"{words}, {held:,} are kept out by other rules" if held else words]


def _dataset(project: Project, name: str) -> Dataset:
    loaded = load_recipe(project.recipe_path(name), base=project.folder)
    return Dataset(loaded, project.storage_root)


def _show(dataset: Dataset, lines: list[str], report: RunReport | None) -> None:
    if report is None:
        lines.append(NOTED.format(name=dataset.name))
    else:
        lines += [*run_lines(report), *skip_lines(dataset)]
    for line in lines:
        out.print(line, soft_wrap=True, highlight=False, markup=False)
    for words in warnings_now(dataset):
        out.print(f"[bold yellow]warning:[/] {words}", soft_wrap=True, highlight=False)


def _print_json(
    dataset: Dataset,
    list_name: str,
    matches: ListMatches,
    report: RunReport | None,
    **more: Any,
) -> None:
    content = {
        "dataset": dataset.name,
        "list": list_name,
        **match_json(matches),
        **more,
        "warnings": warnings_now(dataset),
        "run": report.as_json() if report else None,
    }
    print(json.dumps(content))


def _show_lists(dataset: Dataset, *, as_json: bool) -> None:
    """The stored lists, and those that the recipe names."""
    lists = stored_lists(dataset.layout)
    named = sorted(map(str, dataset.loaded.skip_lists))
    if as_json:
        content = [_list_json(stored) for stored in lists]
        print(json.dumps({"dataset": dataset.name, "lists": content, "of_recipe": named}))
        return
    if lists:
        table = Table(box=None, padding=(0, 2, 0, 0))
        table.add_column("list", no_wrap=True)
        table.add_column("entries", justify="right", no_wrap=True)
        table.add_column("reason", overflow="fold")
        for stored in lists:
            reasons = in_one_line("; ".join(stored.reasons[:3]))
            table.add_row(stored.name, f"{len(stored.entries):,}", reasons)
        out.print(table, markup=False)
    else:
        out.print(f"{dataset.name}: no stored skip list", highlight=False)
    if named:
        words = f"The recipe names {', '.join(named)} in curate.skip_lists."
        out.print(words, soft_wrap=True, highlight=False, markup=False)


def _list_json(stored: StoredList) -> dict[str, Any]:
    return {"list": stored.name, "entries": len(stored.entries), "reasons": stored.reasons}
