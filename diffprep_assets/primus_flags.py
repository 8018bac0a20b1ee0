"""Flags and config files of Primus's and FastVideo's commands, made into a recipe of ours."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from diffprep_assets.project import Project
from diffprep_assets.recipe.load import load_recipe
from diffprep_resources.errors import SettingError
from diffprep_resources.storage.atomic import write_bytes

WRITTEN_BY = "# Written by `diffprep {}`, which replaces this file when run again.\n"
COMMANDS = ("diffusion-encoded", "diffusion-raw", "video-encoded")

# Flags that name a place: taken from the working folder, as in any command.
PATHS = {"source.input_dir", "source.input_path", "output.output_dir", "auth.hf_token_file"}


def recipe_from_flags(
    project: Project,
    *,
    config: Path | None,
    flags: Mapping[str, Any],
    working_folder: Path,
    command: str = "diffusion-encoded",
) -> Path:
    """`recipes/<last name of output_dir>.yaml`, written from `config` with `flags` over it.

    `flags` are those given, by dotted recipe key; one that equals a default counts as given.
    Raises RecipeError naming the config's lines, SettingError when the recipe is somebody's own, or
    the other command's.
    """
    given = {
        key: _from(working_folder, project.folder, value) if key in PATHS else value
        for key, value in flags.items()
    }
    content = _config(config, project, given) if config else {}
    for key, value in given.items():
        section, name = key.split(".")
        values = content.setdefault(section, {})
        if values is None:
            values = content[section] = {}
        values[name] = value
    output_dir = (content.get("output") or {}).get("output_dir")
    if not output_dir:
        raise SettingError("give --output-dir, or output.output_dir in the --config file")
    path = project.recipes / f"{Path(output_dir).name}.yaml"
    written_by = WRITTEN_BY.format(command)
    if path.exists() and not path.read_text("utf-8").startswith(written_by):
        raise SettingError(
            f"{path} is {_whose(path)}; run it with `diffprep run {path.stem}`, or give "
            f"another --output-dir"
        )
    text = written_by + yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
    write_bytes(path, text.encode())
    return path


def flags_given(sections: Mapping[str, Iterable[str]], given: Mapping[str, Any]) -> dict[str, Any]:
    """The flags that were given, by dotted recipe key; `sections` has each section's flags."""
    return {
        f"{section}.{key.removeprefix('source_')}": given[key]
        for section, keys in sections.items()
        for key in keys
        if given[key] is not None
    }


def _whose(path: Path) -> str:
    text = path.read_text("utf-8")
    for command in COMMANDS:
        if text.startswith(WRITTEN_BY.format(command)):
            return f"the recipe that `diffprep {command}` wrote"
    return "a recipe of your own"


def _config(config: Path, project: Project, given: Mapping[str, Any]) -> dict[str, Any]:
    """The config's own text as data, `${...}` left as it is; checked whole, with the flags."""
    load_recipe(config, base=project.folder, overrides=given)
    return yaml.safe_load(config.read_text("utf-8-sig")) or {}


def _from(working_folder: Path, project_folder: Path, value: str) -> str:
    """A path of the command line as a recipe writes it: relative to the project if inside."""
    if "://" in value:
        return value
    path = working_folder / os.path.expanduser(value)
    if path.is_relative_to(project_folder):
        return path.relative_to(project_folder).as_posix()
    return str(path)
