"""`diffprep init`: a recipe for a source that was looked at, and what was seen there."""

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from diffprep_assets.console import AsJson, ProjectDir, explained, out
from diffprep_assets.project import RECIPE_SUFFIXES, Project, find_project
from diffprep_assets.recipe.folders import is_remote
from diffprep_assets.recipe.names import check_name, colliding_names
from diffprep_assets.source_look.clip_settings import SHARD_SIZE, video_choice
from diffprep_assets.source_look.drafting import (
    free_output_dir,
    loaded_text,
    looked_through,
    refuse_unusable,
)
from diffprep_assets.source_look.media import media_at
from diffprep_assets.source_look.oddities import oddities
from diffprep_assets.source_look.place import Place, as_written, source_section
from diffprep_assets.source_look.recipe_text import RecipeDraft, recipe_text
from diffprep_assets.source_look.report import InitReport, saw
from diffprep_assets.source_look.settings import image_choice, shard_size, t5_max_length
from diffprep_resources.errors import SettingError
from diffprep_resources.sources.names import Media


@explained
def init(  # noqa: PLR0913 (an option each)
    name: Annotated[str, typer.Argument(help="the dataset's name, that of recipes/NAME.yaml")],
    source: Annotated[
        str, typer.Option("--from", help="folder, 'x/*.tar', hf:owner/name, s3://..., https://...")
    ],
    model: Annotated[
        str | None, typer.Option(help="diffusers repository: owner/name on the Hub, or a folder")
    ] = None,
    hf_name: Annotated[str | None, typer.Option(help="configuration of a Hub dataset")] = None,
    hf_split: Annotated[str | None, typer.Option(help="split of a Hub dataset")] = None,
    caption_key: Annotated[str | None, typer.Option(help="as data_format.caption_key")] = None,
    image_key: Annotated[str | None, typer.Option(help="as data_format.image_key")] = None,
    video: Annotated[
        bool | None,
        typer.Option("--video/--pictures", help="clips, or pictures; else what is there on disk"),
    ] = None,
    project: ProjectDir = None,
    as_json: AsJson = False,
) -> None:
    """Look at a source, write a recipe for it, and say what was seen."""
    found = find_project(Path.cwd(), project)
    path = _free_path(found, name)
    media: Media = "clips" if video else "pictures"
    if video is None and not is_remote(source):
        media = media_at(source, Path.cwd())
    place = Place(source, Path.cwd(), found.folder, hf_name, hf_split, media)
    section = source_section(place)
    keys = {"caption_key": caption_key, "image_key": image_key}
    given = {key: value for key, value in keys.items() if value is not None}
    report = _written(path, place, found, source=section, keys=given, model=model)
    if as_json:
        print(json.dumps(report.as_json()))
        return
    for line in report.lines():
        out.print(line, soft_wrap=isinstance(line, str), highlight=False)


def _free_path(project: Project, name: str) -> Path:
    """Where the recipe goes. Raises SettingError for a name that is wrong or taken."""
    try:
        check_name(name)
    except ValueError as error:
        raise SettingError(str(error)) from error
    for suffix in RECIPE_SUFFIXES:
        path = project.recipes / f"{name}{suffix}"
        if path.exists():
            raise SettingError(
                f"{path} is there already, and is not replaced; remove it, or choose another name"
            )
    names = [path.stem for path in project.recipe_files()]
    if clash := [group for group in colliding_names([*names, name]) if name in group]:
        other = next(known for known in clash[0] if known != name)
        raise SettingError(f"Dagster cannot tell {name} from the recipe {other}; choose another")
    return project.recipes / f"{name}{RECIPE_SUFFIXES[0]}"


def _written(
    path: Path,
    place: Place,
    project: Project,
    *,
    source: Mapping[str, str],
    keys: Mapping[str, str],
    model: str | None,
) -> InitReport:
    """Looks, decides, and puts the recipe at `path`."""
    output_dir = free_output_dir(path, project, source)
    sections = {"source": source, "data_format": keys, "output": {"output_dir": output_dir}}
    if place.media == "clips":
        sections["video"] = {}
    look = looked_through(path, project, sections)
    refuse_unusable(look, place.text)
    is_video = place.media == "clips"
    choice = video_choice(look.kept) if is_video else image_choice(look.sizes)
    draft = RecipeDraft(
        command=f"diffprep init {path.stem} --from {place.text}",
        saw=saw(look),
        source=source,
        source_words=", ".join(sorted(look.captions_at)),
        data_format={**look.data_format, **keys},
        output_dir=output_dir,
        shard_size=SHARD_SIZE if is_video else shard_size(look.samples),
        model=_model(model, place),
        media=place.media,
        encoded=choice.section,
        encoded_words=choice.why,
        several_lines=any("\n" in (row.caption or "") for row in look.kept),
        several_captions=any("captions taken" in note for row in look.kept for note in row.notes),
    )
    text = recipe_text(draft)
    loaded_text(path, project, text)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("x", encoding="utf-8") as file:
        file.write(text)
    commands = [f"diffprep {verb} {path.stem}" for verb in ("check", "plan", "run")]
    odd = oddities(look, choice)
    return InitReport(path.stem, str(path), place.text, look, odd, draft, commands)


def _model(model: str | None, place: Place) -> dict[str, object]:
    """The recipe's `model`. Raises SettingError for a folder that is not there."""
    if model is None:
        return {}
    path = Path(place.working_folder, os.path.expanduser(model))
    if path.is_dir():
        given = replace(place, text=model)
        return {"model_path": as_written(path, given, as_folder=True)}
    if model.startswith(("/", ".", "~")):
        raise SettingError(f"--model: there is no folder {path}")
    length = t5_max_length(model)
    found: dict[str, object] = {"model_path": model}
    return found | ({"t5_max_length": length} if length else {})
