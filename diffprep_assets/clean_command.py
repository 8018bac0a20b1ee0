"""`diffprep clean`: removes what a dataset does not need, or all of it, after saying how much."""

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, get_args

import typer
from rich.markup import escape
from rich.table import Table

from diffprep_assets.changes import plural
from diffprep_assets.console import AsJson, Name, ProjectDir, err, explained, out
from diffprep_assets.dagster_home import use_dagster_home
from diffprep_assets.dataset import Dataset
from diffprep_assets.dataset_locks import run_lock
from diffprep_assets.dataset_summary import layout_without_recipe
from diffprep_assets.layout import Layout
from diffprep_assets.project import Project, find_project
from diffprep_assets.quantities import bytes_text
from diffprep_assets.recipe.formats import SHARD_STAGE, Format
from diffprep_assets.recipe.load import load_recipe
from diffprep_assets.removable import Kind, Removable, freed_bytes, removable, remove
from diffprep_assets.shard_plan.table import read_shards
from diffprep_resources.errors import SettingError
from diffprep_resources.sources.remote import RemoteSource
from diffprep_resources.storage.locks import hold

EVERY_KIND: tuple[Kind, ...] = get_args(Kind)
NAME_A_KIND = (
    "Nothing was removed. Name what is to go: --old-generations, --old-formats, --downloads, "
    "--intermediates, or --all for the work folder and the output."
)


@dataclass(frozen=True, slots=True)
class Target:
    """The dataset to clean. `dataset` is None where the project has no recipe for it any more."""

    project: Project
    layout: Layout
    dataset: Dataset | None

    @property
    def formats(self) -> tuple[Format, ...]:
        """Those that the recipe lists; all of them where there is none."""
        return self.dataset.recipe.output.formats if self.dataset else tuple(SHARD_STAGE)


@explained
def clean(  # noqa: PLR0913 (an option each)
    name: Name,
    old_generations: Annotated[
        bool, typer.Option("--old-generations", help="shards that the plan does not hold any more")
    ] = False,
    old_formats: Annotated[
        bool,
        typer.Option("--old-formats", help="shards and output of formats that the recipe dropped"),
    ] = False,
    downloads: Annotated[
        bool, typer.Option("--downloads", help="what was fetched of a remote source")
    ] = False,
    intermediates: Annotated[
        bool, typer.Option("--intermediates", help="encoded rows that finished shards hold")
    ] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="the work folder and the output folder; asks first")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="say it, and remove nothing")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="do not ask")] = False,
    project: ProjectDir = None,
    as_json: AsJson = False,
) -> None:
    """Say how many bytes a dataset takes, by kind, and remove the kinds that are named."""
    target = _target(find_project(Path.cwd(), project), name)
    asked: dict[Kind, bool] = {
        "old generations": old_generations,
        "old formats": old_formats,
        "downloads": downloads,
        "intermediates": intermediates,
        "work": everything,
        "output": everything,
    }
    wanted: list[Kind] = [kind for kind, is_asked in asked.items() if is_asked]
    if downloads and not everything:
        _refuse_lost_downloads(target)
    _clean(target, wanted, only_say=dry_run, ask=everything and not yes, as_json=as_json)


def _clean(target: Target, wanted: list[Kind], *, only_say: bool, ask: bool, as_json: bool) -> None:
    to_remove = bool(wanted) and not only_say
    with _held(target.layout) if to_remove else nullcontext():
        formats = target.formats
        found = [removable(target.layout, kind, formats=formats) for kind in EVERY_KIND]
        chosen = [entry for entry in found if entry.kind in wanted]
        _show(target.layout.dataset, found, wanted=wanted, dry_run=only_say, as_json=as_json)
        if not to_remove:
            return
        if ask:
            _ask(target.layout, chosen)
        _remove(target, chosen)
        if not as_json and any(entry.paths for entry in chosen):
            out.print("removed", style="green")
    if "work" in wanted:
        for folder in (target.layout.locks, target.layout.folder):
            # A run that began meanwhile keeps its folder.
            with suppress(OSError):
                os.rmdir(folder)


def _target(project: Project, name: str) -> Target:
    """The dataset of a recipe, else of a folder that is left in the storage root."""
    try:
        path = project.recipe_path(name)
    except SettingError:
        layout = layout_without_recipe(project.storage_root, name)
        if layout is None:
            raise
        return _checked(Target(project, layout, None))
    dataset = Dataset(load_recipe(path, base=project.folder), project.storage_root)
    return _checked(Target(project, dataset.layout, dataset))


def _checked(target: Target) -> Target:
    for folder in (target.layout.folder, target.layout.output_dir):
        if folder.is_symlink():
            raise SettingError(
                f"{folder} is a symbolic link to {os.readlink(folder)}, and clean follows none; "
                f"name the folder itself in the settings, or remove what lies there by hand"
            )
    return target


def _refuse_lost_downloads(target: Target) -> None:
    """Raises SettingError where what is removed could not be fetched again."""
    if target.dataset is None or not isinstance(target.dataset.source, RemoteSource):
        return
    if target.dataset.source.store.is_offline:
        raise SettingError(
            f"{target.layout.dataset}: HF_HUB_OFFLINE is set, so that the next run could not fetch "
            f"again what --downloads removes; unset it first"
        )


@contextmanager
def _held(layout: Layout) -> Iterator[None]:
    """The dataset's locks, held alone. Raises DatasetLockedError, naming who holds them."""
    holder = f"diffprep clean {layout.dataset}"
    with (
        run_lock(layout, holder=holder, log=lambda _: None),
        hold(layout.dataset_lock, holder=holder),
    ):
        yield


def _ask(layout: Layout, chosen: Sequence[Removable]) -> None:
    """Raises SettingError unless a person says yes."""
    what = f"all of {layout.dataset}, {bytes_text(_freed(chosen))}, with {layout.output_dir}"
    if not sys.stdin.isatty():
        raise SettingError(f"this would remove {what}; say --yes, since nobody can be asked here")
    err.print(f"This removes {what}. The recipe and the source stay.", soft_wrap=True)
    if not typer.confirm("Remove it?", err=True):
        raise SettingError("nothing was removed")


def _remove(target: Target, chosen: Sequence[Removable]) -> None:
    layout = target.layout
    kinds = {entry.kind for entry in chosen}
    # What stops here leaves a dataset that the next run mends: the index of what is published
    # goes before the tars that it names.
    for entry in sorted(chosen, key=lambda entry: entry.kind != "output"):
        roots = {"output": [layout.output_dir], "old formats": [layout.output_dir, layout.folder]}
        remove(entry.paths, roots=roots.get(entry.kind, [layout.folder]))
    home = Path(os.environ.get("DAGSTER_HOME", str(target.project.folder / ".dagster")))
    if home.exists() and kinds & {"work", "old generations"}:
        from diffprep_assets import jobs

        use_dagster_home(target.project)
        if "work" in kinds:
            jobs.register_partitions(layout.dataset, parts=[], shards=[])
        elif shards := read_shards(layout.shards):
            keys = sorted(shard.shard for shard in shards)
            jobs.register_partitions(layout.dataset, parts=None, shards=keys)


def _freed(entries: Sequence[Removable]) -> int:
    """Bytes that removing all of these frees: a tar has a name in the work folder and one in the
    output."""
    return freed_bytes({path for entry in entries for path in entry.paths})


def _show(
    dataset: str,
    found: Sequence[Removable],
    *,
    wanted: Sequence[Kind],
    dry_run: bool,
    as_json: bool,
) -> None:
    chosen = [entry for entry in found if entry.kind in wanted]
    if as_json:
        kinds = {
            entry.kind.replace(" ", "_"): {
                "files": len(entry.paths),
                "bytes": entry.size_bytes,
                "note": entry.note,
                "chosen": entry.kind in wanted,
            }
            for entry in found
        }
        content = {"dataset": dataset, "kinds": kinds, "frees_bytes": _freed(chosen)}
        print(json.dumps({**content, "dry_run": dry_run}))
        return
    table = Table(title=dataset, title_justify="left", box=None, padding=(0, 2, 0, 0))
    table.add_column("kind", no_wrap=True)
    table.add_column("files", justify="right", no_wrap=True)
    table.add_column("bytes", justify="right", no_wrap=True)
    table.add_column("")
    for entry in found:
        size = bytes_text(entry.size_bytes) if entry.paths else ""
        style = "bold" if entry.kind in wanted else ("dim" if wanted else None)
        files = f"{len(entry.paths):,}" if entry.paths else ""
        table.add_row(entry.kind, files, size, escape(entry.note), style=style)
    out.print(table)
    if not wanted:
        out.print(NAME_A_KIND, soft_wrap=True, highlight=False)
        return
    files = len({path for entry in chosen for path in entry.paths})
    verb = "would remove" if dry_run else "to remove:"
    words = f"{verb} {files:,} {plural('file', files)}, which frees {bytes_text(_freed(chosen))}"
    out.print(words if files else "nothing to remove", highlight=False)
