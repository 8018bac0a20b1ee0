"""A recipe file, read, checked and resolved; every problem of it in one error."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from diffprep_assets.recipe.check import check_recipe
from diffprep_assets.recipe.execution import ExecutionSettings
from diffprep_assets.recipe.folders import (
    absolute,
    folder_or_name,
    is_remote,
    may_hold,
    overlap,
)
from diffprep_assets.recipe.names import check_name
from diffprep_assets.recipe.notes import without_effect
from diffprep_assets.recipe.overrides import apply_override
from diffprep_assets.recipe.problems import Problem, report
from diffprep_assets.recipe.resolved import recipe_hash, resolved_recipe
from diffprep_assets.recipe.schema import Recipe
from diffprep_assets.recipe.yaml_text import Document, read_yaml
from diffprep_resources.errors import RecipeError

MAX_BYTES = 1 << 20
Role = Literal["model_path", "vae_path", "t5_path", "clip_path"]


@dataclass(frozen=True, slots=True)
class LoadedRecipe:
    """A valid recipe. `recipe` and `resolved` hold paths as written; the properties resolve them.

    `text` is the file as it was read. `resolved` is JSON with every default filled in;
    `recipe_hash` (32 hex digits) is its digest.
    `notes` are sentences on keys that have no effect as the recipe stands.
    """

    name: str
    path: Path
    base: Path
    recipe: Recipe
    execution: ExecutionSettings
    recipe_hash: str
    resolved: dict[str, object]
    text: str = ""
    notes: tuple[str, ...] = ()

    @property
    def output_dir(self) -> Path:
        return absolute(self.recipe.output.output_dir, base=self.base)

    @property
    def input_dir(self) -> str | None:
        """Absolute folder of a directory source, or its address if remote."""
        return self._place(self.recipe.source.input_dir)

    @property
    def input_path(self) -> str | None:
        """Absolute glob of a webdataset source, or its address if remote."""
        return self._place(self.recipe.source.input_path)

    @property
    def hf_dataset(self) -> str | None:
        """Absolute folder of a local Hub-like dataset, else its name on the Hub."""
        name = self.recipe.source.hf_dataset
        return None if name is None else folder_or_name(name, base=self.base)

    @property
    def hf_token_file(self) -> Path | None:
        path = self.recipe.auth.hf_token_file
        return None if path is None else absolute(path, base=self.base)

    @property
    def skip_lists(self) -> dict[str, Path]:
        """Each of the recipe's skip lists, by its path as written, and where it is."""
        written = self.recipe.curate.skip_lists or ()
        return {text: absolute(text, base=self.base) for text in written}

    def model_reference(self, role: Role) -> str | None:
        """Absolute folder of local weights, else a name on the Hub; None where not overridden."""
        text: str | None = getattr(self.recipe.model, role)
        return None if text is None else folder_or_name(text, base=self.base)

    @property
    def source_folder(self) -> tuple[str, Path] | None:
        """The key and the absolute folder of a source of loose local files; None for others."""
        if self.input_dir and not is_remote(self.input_dir):
            return "source.input_dir", Path(self.input_dir)
        if self.hf_dataset and Path(self.hf_dataset).is_absolute():
            return "source.hf_dataset", Path(self.hf_dataset)
        return None

    def _place(self, text: str | None) -> str | None:
        return text if text is None or is_remote(text) else str(absolute(text, base=self.base))


def load_recipe(
    path: Path, *, base: Path, overrides: Mapping[str, object] | None = None
) -> LoadedRecipe:
    """The recipe at `path`. Relative paths in it are taken from `base`, the project's folder.

    `overrides` act as if the file said so: dotted keys, whose text values are read as YAML.
    Raises RecipeError with a line for each problem: file, line, what was got, what is allowed.
    """
    document = _read(path)
    for key, value in (overrides or {}).items():
        apply_override(document, key, value, environment=os.environ)
    if isinstance(document.data, dict):
        checked = check_recipe(document.data, written=document.written)
    elif document.problems:
        checked = []
    else:
        checked = [Problem((), "a recipe is a mapping of sections, like source: and output:")]
    if document.problems or isinstance(checked, list):
        found = checked if isinstance(checked, list) else []
        raise _error(path, _first_of_each(document.problems, found), document)
    recipe, execution = checked
    loaded = _loaded(path, document.text, base=base, recipe=recipe, execution=execution)
    if problem := _overlapping_folders(loaded):
        raise _error(path, [problem], document)
    return loaded


def _loaded(
    path: Path, text: str, *, base: Path, recipe: Recipe, execution: ExecutionSettings
) -> LoadedRecipe:
    resolved = resolved_recipe(recipe)
    base = base.absolute()
    dataset = recipe.source.hf_dataset
    local_dataset = bool(dataset) and Path(folder_or_name(dataset, base=base)).is_absolute()
    return LoadedRecipe(
        name=path.stem,
        path=path,
        base=base,
        recipe=recipe,
        execution=execution,
        recipe_hash=recipe_hash(resolved),
        resolved=resolved,
        text=text,
        notes=without_effect(recipe, local_dataset=local_dataset),
    )


def _overlapping_folders(loaded: LoadedRecipe) -> Problem | None:
    output, tars = loaded.output_dir, loaded.input_path
    if loaded.source_folder:
        key, place = loaded.source_folder
        lies = overlap(output, place)
    elif tars and not is_remote(tars) and Path(tars).is_dir():
        key, place = "source.input_path", Path(tars)
        lies = overlap(output, place)
    elif tars and not is_remote(tars) and may_hold(Path(tars), output):
        key, place, lies = "source.input_path", Path(tars), "lies among the files of"
    else:
        return None
    if lies is None:
        return None
    return Problem(
        ("output", "output_dir"),
        f"({output}) {lies} {key} ({place}); choose a folder apart from the source",
        (tuple(key.split(".")),),
    )


def _first_of_each(reading: list[Problem], checking: list[Problem]) -> list[Problem]:
    """All problems, less those that only follow from a value that could not be read."""
    unread = {problem.where for problem in reading}
    return reading + [problem for problem in checking if problem.where not in unread]


def _error(path: Path, problems: list[Problem], document: Document) -> RecipeError:
    return RecipeError(report(path, problems, lines=document.lines))


def _read(path: Path) -> Document:
    try:
        check_name(path.stem)
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise RecipeError(f"{path}: cannot read this recipe: {error.strerror}") from error
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise RecipeError(f"{path}, line {line}: a recipe is UTF-8 text; this is not") from error
    except ValueError as error:
        raise RecipeError(f"{path}: {error}") from error
    if len(data) > MAX_BYTES:
        raise RecipeError(f"{path}: a recipe is at most {MAX_BYTES:,} bytes long, this is longer")
    return read_yaml(text, environment=os.environ)
