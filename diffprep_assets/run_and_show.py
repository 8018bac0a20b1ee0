"""Runs a recipe and shows it: bars or lines while it goes, a table or a JSON object at the end."""

import json
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.markup import escape

from diffprep_assets.console import FAILED, err, out
from diffprep_assets.dataset import Dataset
from diffprep_assets.project import Project
from diffprep_assets.recipe.load import load_recipe
from diffprep_resources.errors import DiffprepError
from diffprep_resources.progress.base import Progress

if TYPE_CHECKING:
    from diffprep_assets.run_report import RunReport


def run_and_show(
    project: Project,
    name: str,
    changes: Mapping[str, object],
    *,
    execution: Mapping[str, Any],
    as_json: bool,
) -> None:
    """Run a recipe and show what it came to; exits 1 unless the dataset is whole and valid."""
    from diffprep_assets.run_command import RunRequest, failed_before_running, run_dataset

    # A scheduler's SIGTERM stops a run as Ctrl-C does: between batches, nothing half written.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        request = RunRequest(project, project.recipe_path(name), changes, execution)
        report = run_dataset(
            request, console_progress(), say=lambda text: err.print(text, soft_wrap=True)
        )
    except DiffprepError as error:
        if as_json:
            print(json.dumps(failed_before_running(Path(name).stem, error).as_json()))
        raise
    if as_json:
        print(json.dumps(report.as_json()))
    else:
        for line in report.lines():
            out.print(line, soft_wrap=isinstance(line, str), highlight=False)
    if report.error is not None:
        stage, message = report.error
        err.print(f"[bold red]{stage} failed:[/] {escape(message)}", soft_wrap=True)
    elif changes:
        _say_what_a_plain_run_would_find(request.project, request.recipe)
    if not report.ok:
        raise typer.Exit(FAILED)


def brought_up_to_date(
    project: Project,
    name: str,
    *,
    execution: Mapping[str, Any] | None = None,
    as_json: bool = False,
) -> "RunReport":
    """The report of a run that ended well, for a command that shows what it needs of it; exits 1
    after the words, or the object, of one that failed."""
    from diffprep_assets.run_command import RunRequest, run_dataset

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    request = RunRequest(project, project.recipe_path(name), {}, execution or {})
    report = run_dataset(
        request, console_progress(), say=lambda text: err.print(text, soft_wrap=True)
    )
    if report.error is not None:
        if as_json:
            print(json.dumps(report.as_json()))
        stage, message = report.error
        err.print(f"[bold red]{stage} failed:[/] {escape(message)}", soft_wrap=True)
        raise typer.Exit(FAILED)
    return report


def show_dry_run(
    project: Project, name: str, changes: Mapping[str, object], *, as_json: bool
) -> None:
    """Say what a run would do, without doing it."""
    from diffprep_assets.forecast import forecast
    from diffprep_assets.status_report import status_json, status_table, work_lines

    loaded = load_recipe(project.recipe_path(name), base=project.folder, overrides=changes)
    predicted = forecast(Dataset(loaded, project.storage_root))
    content = status_json(loaded.name, predicted)
    if as_json:
        for stage, state in predicted.stages.items():
            content["stages"][stage]["to_encode"] = state.to_encode
        print(json.dumps({**content, "dry_run": True, "unread_files": predicted.unread_files}))
        return
    out.print(status_table(content))
    out.print("A run would do:")
    for line in work_lines(predicted):
        out.print(f"  {line}", soft_wrap=True)


def _say_what_a_plain_run_would_find(project: Project, recipe: Path) -> None:
    from diffprep_assets.forecast import forecast

    dataset = Dataset(load_recipe(recipe, base=project.folder), project.storage_root)
    try:
        stages = forecast(dataset).stages
    except DiffprepError as error:
        err.print(f"What a plain run would find cannot be told: {escape(str(error))}")
        return
    stale = [stage for stage, state in stages.items() if not state.is_fresh]
    words = f"stale: {', '.join(stale)}" if stale else "everything fresh"
    err.print(
        f"This run used settings that {recipe.name} does not have; a plain "
        f"`diffprep run {dataset.name}` would find {words}.",
        soft_wrap=True,
    )


def console_progress() -> Progress:
    """Bars on a terminal, plain lines elsewhere; on standard error."""
    from diffprep_resources.progress.log import LogProgress
    from diffprep_resources.progress.terminal import TerminalProgress

    if sys.stderr.isatty():
        return TerminalProgress(err)
    return LogProgress(echo=lambda line: print(line, file=sys.stderr, flush=True))
