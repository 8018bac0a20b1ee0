"""Drafts of a recipe that is not written yet: loaded as if they stood in their file, and looked
through."""

import json
import re
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from diffprep_assets.dataset import Dataset
from diffprep_assets.layout import Layout
from diffprep_assets.project import Project
from diffprep_assets.recipe.load import LoadedRecipe, load_recipe
from diffprep_assets.source_look.captions_at import local_files
from diffprep_assets.source_look.look import Look, look_at
from diffprep_assets.source_look.report import saw
from diffprep_resources.errors import RecipeError, SettingError
from diffprep_resources.sources.names import NOUNS, is_clip

OPTIONS = {
    "source.hf_name": "--hf-name",
    "source.hf_split": "--hf-split",
    "data_format.caption_key": "--caption-key",
    "data_format.image_key": "--image-key",
}
Sections = Mapping[str, Mapping[str, Any]]


def looked_through(path: Path, project: Project, sections: Sections) -> Look:
    """What the source of these sections holds; keys in `data_format` go before those found.

    Raises SettingError where it cannot be read, naming the options that may help.
    """
    keys = sections.get("data_format", {})
    with tempfile.TemporaryDirectory(prefix="diffprep-look-") as folder:

        def dataset_of(found: Mapping[str, str]) -> Dataset:
            draft = {**sections, "data_format": {**found, **keys}}
            return Dataset(draft_of(path, project, draft), Path(folder))

        try:
            return look_at(dataset_of, first_table=_first_table(dataset_of({})))
        except SettingError as error:
            hint = "; with --video, clips are looked for" if _names_clips(str(error)) else ""
            raise SettingError(_with_options(str(error)) + hint) from error


def draft_of(path: Path, project: Project, sections: Sections) -> LoadedRecipe:
    """The recipe that these sections make. Raises SettingError for a bad one."""
    plain = {key: dict(value) for key, value in sections.items()}
    return loaded_text(path, project, yaml.safe_dump(plain))


def loaded_text(path: Path, project: Project, text: str) -> LoadedRecipe:
    """The recipe of this text, as if it stood at `path`. Raises SettingError for a bad one."""
    with tempfile.TemporaryDirectory(prefix="diffprep-draft-") as folder:
        draft = Path(folder) / path.name
        draft.write_text(text, encoding="utf-8")
        try:
            loaded = load_recipe(draft, base=project.folder)
        except RecipeError as error:
            raise SettingError(str(error).replace(str(draft), f"{path} (not written)")) from error
    return replace(loaded, path=path)


def free_output_dir(path: Path, project: Project, source: Mapping[str, str]) -> str:
    """A folder for the output that is free and apart from the source."""
    name = path.stem
    owner = Layout(project.storage_root, name, Path()).owner
    if owner.exists():
        # What is left of a dataset whose recipe went: its output is found again.
        found = Path(json.loads(owner.read_bytes())["output_dir"])
        inside = found.is_relative_to(project.folder)
        return found.relative_to(project.folder).as_posix() if inside else str(found)
    for candidate in (f"data/{name}", f"data/datasets/{name}", f"out/{name}"):
        folder = project.folder / candidate
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            continue
        try:
            draft_of(path, project, {"source": source, "output": {"output_dir": candidate}})
        except SettingError:
            continue
        return candidate
    return f"data/{name}"


def _with_options(message: str) -> str:
    """The message, naming beside a recipe's key the option that sets it."""
    for key, option in OPTIONS.items():
        message = message.replace(key, f"{key} ({option})", 1)
    return message


def _names_clips(message: str) -> bool:
    """Whether the other files that a message on missing pictures counts are clips."""
    words = re.findall(r"\.(\w+)\b", message)
    return "picture" in message and any(is_clip(word.lower()) for word in words)


def _first_table(dataset: Dataset) -> Path | None:
    """The parquet file to learn the columns from, if the source is such files on this machine."""
    chosen = local_files(dataset)
    folder = dataset.loaded.source_folder
    if chosen is None or folder is None or chosen.kind != "parquet" or not chosen.paths:
        return None
    return folder[1] / chosen.paths[0]


def refuse_unusable(look: Look, place: str) -> None:
    """Raises SettingError where samples were looked at, and none could be used."""
    if look.kept or not look.rows:
        return
    other = ", ".join(f"{count:,} {name}" for name, count in look.other_files.items())
    also = f"; other files there: {other}" if other else ""
    if all(row.code == "no_caption" for row in look.rows):
        noun = NOUNS[look.media]
        where = {
            "pictures": "a .txt, .caption or .json file of each picture's name, beside it or in "
            "captions/, and metadata.jsonl, .csv or .parquet",
            "clips": "videos2caption.json, videos.txt with prompt.txt, and a .txt, .caption or "
            ".json file of each clip's name, beside it or in captions/",
            "tar": f"members .caption, .text, .txt, .json and the like beside each {noun}",
            "parquet": "columns caption, text, txt, description and prompt",
        }[look.kind]
        raise SettingError(
            f"--from {place}: {saw(look)}, and no captions; looked for {where}{also}. Add "
            f"captions, or name the field that holds them with --caption-key"
        )
    first = look.rows[0]
    raise SettingError(
        f"--from {place}: {saw(look)}, but none of the {len(look.rows):,} looked at can be used, "
        f"such as {first.source_key}: {first.message}{also}"
    )
