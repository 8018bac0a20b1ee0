"""The `diffprep` command."""

import json
import logging
import os
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from diffprep_assets.clean_command import clean
from diffprep_assets.console import (
    FAILED,
    AsJson,
    BatchSize,
    Device,
    MaxSamples,
    Name,
    Overrides,
    ProjectDir,
    Vae,
    Workers,
    changes_of,
    err,
    explained,
    out,
)
from diffprep_assets.dagster_home import use_dagster_home
from diffprep_assets.dataset import Dataset
from diffprep_assets.info_command import info
from diffprep_assets.init_command import init
from diffprep_assets.list_command import list_datasets
from diffprep_assets.new_project import new_project
from diffprep_assets.plan_command import plan
from diffprep_assets.preview_command import preview
from diffprep_assets.primus_command import diffusion_encoded, diffusion_raw
from diffprep_assets.project import Project, find_project, project_if_any
from diffprep_assets.published_at import published_at
from diffprep_assets.range_command import partition_range
from diffprep_assets.recipe.formats import part_stages, shard_stages
from diffprep_assets.recipe.load import LoadedRecipe, load_recipe
from diffprep_assets.reject_list import show_rejects
from diffprep_assets.rewrite_command import rewrite
from diffprep_assets.run_and_show import run_and_show, show_dry_run
from diffprep_assets.skip_command import skip, unskip
from diffprep_assets.ui_command import ui
from diffprep_assets.validate.report import ValidationReport
from diffprep_assets.video_command import CONTEXT, video_encoded
from diffprep_assets.video_demo import run_video_demo
from diffprep_assets.video_index_command import video_index
from diffprep_resources.errors import SettingError
from diffprep_resources.storage.locks import hold

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Prepares datasets for training diffusion models, one YAML recipe each.",
)
app.command("diffusion-encoded")(diffusion_encoded)
app.command("diffusion-raw")(diffusion_raw)
app.command("video-encoded", context_settings=CONTEXT)(video_encoded)
app.command()(clean)
app.command()(info)
app.command()(plan)
app.command()(init)
app.command("range")(partition_range)
app.command("list")(list_datasets)
app.command()(preview)
app.command()(rewrite)
app.command()(skip)
app.command()(unskip)
app.command()(ui)
app.command("video-index")(video_index)


def main() -> None:
    """Entry point of the command."""
    warnings.filterwarnings("ignore")
    logging.getLogger("diffprep_resources").setLevel(logging.CRITICAL)
    app()


@app.command()
@explained
def new(folder: Annotated[Path, typer.Argument(help="folder to make")]) -> None:
    """Make a project folder: settings, recipes, and what Dagster needs."""
    for path in new_project(folder):
        out.print(f"wrote {path}", soft_wrap=True, highlight=False)
    out.print(
        f"\nNext: cd {folder}, and `diffprep init NAME --from FOLDER` writes a recipe for your "
        f"pictures (recipes/examples shows more); or try `diffprep demo`.",
        soft_wrap=True,
    )


@app.command()
@explained
def demo(
    project: ProjectDir = None,
    video: Annotated[
        bool, typer.Option("--video", help="clips, for text-to-video and for image-to-video")
    ] = False,
) -> None:
    """Draw captioned pictures, build tiny encoders, and run recipes/demo.yaml on them."""
    from diffprep_resources.demo.build import build_demo

    found = _project(project)
    if video:
        run_video_demo(found)
        return
    made = build_demo(found.folder / "data" / "demo")
    out.print(f"pictures: {made.pictures}\nencoders: {made.encoders}", soft_wrap=True)
    run_and_show(found, "demo", {}, execution={}, as_json=False)
    out.print(
        "\nWhat to try next:\n"
        "  diffprep run demo                     says that all is fresh\n"
        "  diffprep status demo\n"
        "  diffprep run demo --set model.t5_max_length=32   redoes text alone\n"
        "  diffprep validate data/datasets/demo --full\n"
        "  diffprep preview data/datasets/demo --html       pictures out of the latents\n"
        "  diffprep ui                           the same in a browser, port 3000",
        soft_wrap=True,
        highlight=False,
    )


@app.command()
@explained
def check(name: Name, project: ProjectDir = None, overrides: Overrides = None) -> None:
    """Validate a recipe and print it resolved, with every default."""
    import yaml

    _, loaded = _loaded(name, project, changes_of(overrides))
    for note in loaded.notes:
        err.print(f"note: {escape(note)}", soft_wrap=True)
    print(yaml.safe_dump(loaded.resolved, sort_keys=False, allow_unicode=True), end="")


@app.command()
@explained
def run(  # noqa: PLR0913 (an option each)
    name: Name,
    project: ProjectDir = None,
    overrides: Overrides = None,
    max_samples: MaxSamples = None,
    device: Device = None,
    batch_size: BatchSize = None,
    workers: Workers = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="say what a run would do, and do nothing")
    ] = False,
    retry_rejects: Annotated[
        bool, typer.Option("--retry-rejects", help="try passing failures of samples again")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Make or update a dataset; only what is stale is done again."""
    changes = changes_of(overrides)
    if max_samples is not None:
        changes["output.max_samples"] = max_samples
    if dry_run:
        show_dry_run(_project(project), name, changes, as_json=as_json)
        return
    execution = {
        "device": device,
        "batch_size": batch_size,
        "workers": workers,
        "retry_rejects": retry_rejects or None,
    }
    run_and_show(_project(project), name, changes, execution=execution, as_json=as_json)


@app.command()
@explained
def status(name: Name, project: ProjectDir = None, as_json: AsJson = False) -> None:
    """Say what is fresh, stale, missing or failed. Runs nothing."""
    from diffprep_assets.forecast import forecast
    from diffprep_assets.status_report import status_json, status_table

    found, loaded = _loaded(name, project)
    predicted = forecast(Dataset(loaded, found.storage_root))
    content = status_json(loaded.name, predicted, _failed(found, loaded))
    if as_json:
        print(json.dumps(content))
    else:
        out.print(status_table(content))


@app.command()
@explained
def rejects(
    name: Name,
    project: ProjectDir = None,
    reason: Annotated[str | None, typer.Option(help="only those with this code")] = None,
    as_json: AsJson = False,
) -> None:
    """List the samples that were left out, and why. Runs nothing."""
    found, loaded = _loaded(name, project)
    show_rejects(Dataset(loaded, found.storage_root), reason=reason, as_json=as_json)


@app.command()
@explained
def validate(
    path: Annotated[Path, typer.Argument(help="the dataset's folder")],
    encoding: Annotated[
        str | None, typer.Option(help="what the samples hold; the folder says by itself")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="every tensor and every digest")] = False,
    decode: Annotated[
        int | None, typer.Option(min=1, help="also judge this many samples by decoding them")
    ] = None,
    vae: Vae = None,
    device: Device = None,
) -> None:
    """Check that a trainer can read all of a dataset, ours or another tool's."""
    from diffprep_assets.preview.vae_of import CLIP_ENCODINGS
    from diffprep_assets.validate.dataset import validate_dataset
    from diffprep_assets.validate.encoding import encoding_of
    from diffprep_assets.validate.report import report_lines

    holds = encoding or encoding_of(path)
    if decode is not None and holds not in ("preencoded", *CLIP_ENCODINGS):
        raise SettingError(
            f"--decode judges latents, and {path} holds {holds} samples, whose pictures every "
            "validation decodes; leave --decode out"
        )
    report = validate_dataset(path, encoding=holds, full=full)
    if decode is not None and report.facts["shards"]:
        from diffprep_assets.validate.clips_decode import decode_clips
        from diffprep_assets.validate.decode_check import decode_and_judge

        project = project_if_any(Path.cwd())
        judge = decode_clips if holds in CLIP_ENCODINGS else decode_and_judge
        check = judge(path, count=decode, project=project, vae=vae, device=device)
        report = replace(report, checks=(*report.checks, check))
    for line in report_lines(report):
        print(line)
    if not report.ok:
        for line in _mark_bad_shards(path, report):
            print(line)
        raise typer.Exit(FAILED)


def _project(explicit: Path | None) -> Project:
    return find_project(Path.cwd(), explicit)


def _loaded(
    name: str, project: Path | None, changes: Mapping[str, object] | None = None
) -> tuple[Project, LoadedRecipe]:
    found = _project(project)
    path = found.recipe_path(name)
    return found, load_recipe(path, base=found.folder, overrides=changes or {})


def _mark_bad_shards(path: Path, report: ValidationReport) -> list[str]:
    """What was marked for the next run to mend, where the dataset is one of this project's."""
    from diffprep_assets.validate.update import mark_bad

    found = project_if_any(Path.cwd())
    published = found and published_at(path, project=found)
    if not found or not published:
        return []
    layout, wait_s = published.layout, found.lock_wait_minutes * 60
    with hold(layout.dataset_lock, holder="diffprep validate", shared=True, wait_s=wait_s):
        marked = mark_bad(layout, report)
    words = f"`diffprep run {layout.dataset}` mends it"
    return [f"     marked for the next run: {', '.join(marked)}; {words}"] if marked else []


def _failed(project: Project, loaded: LoadedRecipe) -> dict[str, set[str]]:
    """Partitions whose last try failed, by stage; Dagster's log knows."""
    home = os.environ.get("DAGSTER_HOME", str(project.folder / ".dagster"))
    if not (Path(home) / "storage").exists() and not (Path(home) / "history").exists():
        return {}
    from diffprep_assets import jobs

    use_dagster_home(project)
    stages = (*part_stages(loaded.recipe), *shard_stages(loaded.recipe))
    return {stage: jobs.failed_partitions(loaded.name, stage) for stage in stages}
