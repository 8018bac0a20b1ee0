"""`diffprep info`: what a dataset is, ours or another tool's."""

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from diffprep_assets.console import FAILED, AsJson, ProjectDir, explained, out
from diffprep_assets.project import Project, project_if_any
from diffprep_assets.recipe.load import load_recipe
from diffprep_resources.errors import SettingError


@explained
def info(
    path: Annotated[str, typer.Argument(help="the dataset's folder, or a recipe's name")],
    project: ProjectDir = None,
    as_json: AsJson = False,
) -> None:
    """Say what a dataset is: what made it, what is in it, whether it is valid, how to load it."""
    from diffprep_assets.dataset_info.gather import dataset_info
    from diffprep_assets.dataset_info.report import info_json, info_lines

    found = project_if_any(Path.cwd(), project)
    gathered = dataset_info(_folder(path, found), project=found)
    if as_json:
        print(json.dumps(info_json(gathered)))
    else:
        for line in info_lines(gathered):
            out.print(line, soft_wrap=isinstance(line, str), highlight=False)
    if gathered.problems:
        raise typer.Exit(FAILED)


def _folder(text: str, project: Project | None) -> Path:
    """The folder of that path, else the output folder of the recipe of that name."""
    path = Path(os.path.expanduser(text))
    if path.exists() or project is None or "/" in text:
        return path
    known = {recipe.stem: recipe for recipe in project.recipe_files()}
    if text not in known:
        raise SettingError(
            f"there is no folder {path} and no recipe {text}"
            + (f"; recipes: {', '.join(known)}" if known else "")
        )
    return load_recipe(known[text], base=project.folder).output_dir
