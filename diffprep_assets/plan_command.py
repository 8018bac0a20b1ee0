"""`diffprep plan`: what a run would make and cost, told before anything is encoded."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from diffprep_assets.console import (
    FAILED,
    AsJson,
    Device,
    Name,
    Overrides,
    ProjectDir,
    changes_of,
    err,
    explained,
    out,
)
from diffprep_assets.dataset import Dataset
from diffprep_assets.project import find_project
from diffprep_assets.recipe.formats import shard_stages
from diffprep_assets.run_command import RunRequest, failed_before_running, run_dataset
from diffprep_assets.run_report import RunReport
from diffprep_resources.errors import DiffprepError, SettingError
from diffprep_resources.progress.base import Progress, SampleCounts
from diffprep_resources.storage.atomic import write_bytes
from diffprep_resources.storage.locks import hold

if TYPE_CHECKING:
    from diffprep_assets.plan_report.gather import Gathered
    from diffprep_assets.plan_report.loading import Loading

Html = Annotated[Path | None, typer.Option("--html", help="also write the plan as a page, here")]
TrainBatch = Annotated[int, typer.Option(min=1, help="samples in a trainer's batch, on one rank")]
Ranks = Annotated[int, typer.Option(min=1, help="data parallel ranks of the trainer")]
LoaderWorkers = Annotated[int, typer.Option(min=0, help="data loader workers of each rank")]
Probe = Annotated[
    bool | None,
    typer.Option(
        "--probe/--no-probe",
        help="time a few batches; by default only where the encoders are here already",
    ),
]


@explained
def plan(  # noqa: PLR0913 (an option each)
    name: Name,
    project: ProjectDir = None,
    overrides: Overrides = None,
    batch_size: TrainBatch = 8,
    ranks: Ranks = 1,
    workers: LoaderWorkers = 4,
    device: Device = None,
    probe: Probe = None,
    html: Html = None,
    as_json: AsJson = False,
) -> None:
    """Say what a run would make, leave out and cost, with warnings. Encodes nothing but a probe."""
    from diffprep_assets.plan_report.loading import Loading

    if html is not None and html.is_dir():
        raise SettingError(f"--html names the page to write, got the folder {html}")
    try:
        found = find_project(Path.cwd(), project)
        path = found.recipe_path(name)
        request = RunRequest(found, path, changes_of(overrides), {"device": device}, plan_only=True)
        content = _planned(
            request, Loading(batch_size, ranks, workers), probe=probe, html=html, as_json=as_json
        )
    except DiffprepError as error:
        if as_json:
            failed = failed_before_running(Path(name).stem, error)
            print(json.dumps(_failed(failed)))
        raise
    if as_json:
        print(json.dumps(content))
    if not content["ok"]:
        raise typer.Exit(FAILED)


def _planned(
    request: RunRequest, loading: "Loading", *, probe: bool | None, html: Path | None, as_json: bool
) -> dict[str, Any]:
    """The object of `--json`, once shown for people where that is wanted."""
    from diffprep_assets.plan_report.plan_page import plan_page
    from diffprep_assets.plan_report.plan_warnings import plan_warnings
    from diffprep_assets.plan_report.sheets import sheets
    from diffprep_assets.plan_report.terminal import plan_screen
    from diffprep_assets.run_and_show import console_progress

    progress = console_progress()
    report = run_dataset(request, progress, say=lambda text: err.print(text, soft_wrap=True))
    if report.error is not None:
        _show_failure(report, as_json=as_json)
        return _failed(report)
    dataset = Dataset(request.load(), request.project.storage_root)
    with _unchanged(dataset, wait_minutes=request.project.lock_wait_minutes):
        found = _found(request, dataset, loading, progress=progress, probe=probe)
        warnings = plan_warnings(found.facts)
        if not as_json:
            out.print(plan_screen(found.facts, warnings, width=out.width))
        if html is not None:
            page = plan_page(found.facts, warnings, list(sheets(dataset, found.chosen)))
            write_bytes(html, page.encode())
            err.print(f"\nwrote {html}", soft_wrap=True, highlight=False)
    return {
        "ok": True,
        "error": None,
        **found.facts.as_json(),
        "warnings": [asdict(warning) for warning in warnings],
    }


def _found(
    request: RunRequest,
    dataset: Dataset,
    loading: "Loading",
    *,
    progress: Progress,
    probe: bool | None,
) -> "Gathered":
    """The facts, tokens counted and batches timed with a bar for each."""
    from diffprep_assets.plan_report.gather import gathered
    from diffprep_assets.plan_report.table_pass import CAPTIONS_COUNTED
    from diffprep_assets.plan_report.timing import PROBED, timed

    most = min(progress.summaries["shard_plan"].samples.samples_out, CAPTIONS_COUNTED)
    with progress.stage("tokens", log=_quiet, total_samples=most) as shown:
        found = gathered(dataset, loading, counted=shown.advance)
        counted = found.facts.captions.counted
        shown.summary.samples = SampleCounts(counted, counted)
    probed = len(PROBED & set(shard_stages(dataset.recipe)))
    with progress.stage("probe", log=_quiet, total_samples=probed) as shown:
        times = timed(
            found,
            dataset,
            request.engines(),
            device=request.execution["device"],
            wanted=probe,
            told=shown.advance,
        )
        shown.summary.samples = SampleCounts(len(times.stages), len(times.stages))
    seconds = {stage: summary.seconds for stage, summary in progress.summaries.items()}
    return replace(found, facts=replace(found.facts, probe=times, seconds=seconds))


def _quiet(_: str) -> None:
    """No line of its own in a log: the plan tells all."""


@contextmanager
def _unchanged(dataset: Dataset, *, wait_minutes: float) -> Iterator[None]:
    """A block in which no whole stage changes the plan."""
    holder = f"diffprep plan {dataset.name}"
    lock = dataset.layout.dataset_lock
    with hold(lock, holder=holder, shared=True, wait_s=wait_minutes * 60):
        yield


def _show_failure(report: RunReport, *, as_json: bool) -> None:
    stage, message = report.error or ("", "")
    if not as_json:
        for line in report.reject_lines():
            out.print(line, soft_wrap=True, highlight=False)
    err.print(f"[bold red]{stage} failed:[/] {escape(message)}", soft_wrap=True)


def _failed(report: RunReport) -> dict[str, Any]:
    content = report.as_json()
    return {name: content[name] for name in ("ok", "error", "dataset", "recipe_hash")}
