"""The project: the folder that holds `dagster_project.toml`, and the settings in that file.

diffprep reads the file, not Dagster. Every setting is optional.
"""

import os
import re
import socket
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from diffprep_assets.recipe.exact import Text
from diffprep_assets.recipe.execution import Device
from diffprep_assets.recipe.folders import absolute
from diffprep_assets.recipe.messages import problems_of
from diffprep_assets.recipe.problems import Location, did_you_mean, report
from diffprep_resources.errors import SettingError

PROJECT_FILE = "dagster_project.toml"
PROJECT_VARIABLE = "DIFFPREP_PROJECT"
RECIPE_SUFFIXES = (".yaml", ".yml")


def _unique_tuple(value: object) -> object:
    if not isinstance(value, list):
        return value
    if len(set(map(str, value))) < len(value):
        raise ValueError("must not name a device twice")
    return tuple(value)


class ProjectSettings(BaseModel):
    """What `dagster_project.toml` may hold."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    storage_root: Text = Field(
        default="data/storage",
        description="folder of unfinished and finished shards, relative to this file",
    )
    recipes: Text = Field(
        default="recipes", description="folder of the recipes, relative to this file"
    )
    devices: Annotated[tuple[Device, ...], BeforeValidator(_unique_tuple)] = Field(
        default=(), description="devices that encoders run on; empty takes every GPU, else the CPU"
    )
    lock_wait_minutes: float = Field(
        default=60, ge=0, description="how long a step waits for another run on its dataset"
    )
    cpu_workers: int | None = Field(
        default=None,
        ge=1,
        description="processes that read and decode; without it, one for each core",
    )
    gpu_op_tags: dict[str, Any] = Field(
        default={},
        description="further Dagster op tags of the GPU stages, such as a Kubernetes limit",
    )


@dataclass(frozen=True, slots=True)
class Project:
    """The project's folder and settings. Paths are absolute."""

    folder: Path
    storage_root: Path
    recipes: Path
    devices: tuple[str, ...] = ()
    lock_wait_minutes: float = 60
    cpu_workers: int | None = None
    gpu_op_tags: Mapping[str, Any] | None = None

    @property
    def lease_folder(self) -> Path:
        """Where leases of this machine's devices lie: storage may be shared, `cuda:0` is not."""
        return self.storage_root / ".devices" / socket.gethostname()

    def recipe_files(self) -> list[Path]:
        """The recipes directly in the recipes folder, sorted; empty if there is no folder."""
        if not self.recipes.is_dir():
            return []
        return sorted(
            path
            for path in self.recipes.iterdir()
            if path.suffix in RECIPE_SUFFIXES and not path.name.startswith(".") and path.is_file()
        )

    def recipe_path(self, name_or_file: str | Path) -> Path:
        """The recipe of that name, or the recipe file itself (from here, else from the project).

        Raises SettingError for an unknown name, listing those that are known.
        """
        text = str(name_or_file)
        if Path(text).suffix in RECIPE_SUFFIXES or os.sep in text:
            return self._recipe_file(Path(os.path.expanduser(text)))
        files = self.recipe_files()
        found = [path for path in files if path.stem == text]
        if len(found) > 1:
            raise SettingError(f"{found[0]} and {found[1]} are both recipe {text}; remove one")
        if found:
            return found[0]
        names = [path.stem for path in files]
        known = f"known: {', '.join(names)}" if names else "there is none yet"
        raise SettingError(
            f"no recipe {text} in {self.recipes}{did_you_mean(text, names)} ({known})"
        )

    def _recipe_file(self, path: Path) -> Path:
        for candidate in (path.absolute(), self.folder / path):
            if candidate.is_file():
                return candidate
        raise SettingError(f"no recipe file {path}, neither in {Path.cwd()} nor in {self.folder}")


def find_project(start: Path, explicit: Path | None = None) -> Project:
    """The project at `explicit`, else at DIFFPREP_PROJECT, else in `start` or a folder above it.

    Raises SettingError when there is none, or when its settings are wrong.
    """
    if explicit is not None:
        return load_project(_named(explicit, origin="--project"))
    if named := os.environ.get(PROJECT_VARIABLE):
        return load_project(_named(Path(named), origin=PROJECT_VARIABLE))
    for folder in (start.absolute(), *start.absolute().parents):
        if (folder / PROJECT_FILE).is_file():
            return load_project(folder / PROJECT_FILE)
    raise SettingError(
        f"no {PROJECT_FILE} in {start.absolute()} or any folder above it; go to a project, "
        f"name one with --project DIR or {PROJECT_VARIABLE}, or make one with `diffprep new DIR`"
    )


def project_if_any(start: Path, explicit: Path | None = None) -> Project | None:
    """As `find_project`; None where nobody named a project and there is none above `start`."""
    if explicit is None and not os.environ.get(PROJECT_VARIABLE):
        folders = (start.absolute(), *start.absolute().parents)
        if not any((folder / PROJECT_FILE).is_file() for folder in folders):
            return None
    return find_project(start, explicit)


def load_project(path: Path) -> Project:
    """The project of this settings file. Raises SettingError with file and line."""
    try:
        text = path.read_text(encoding="utf-8")
        data = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingError(f"{path}: this is not TOML: {error}") from error
    except OSError as error:
        raise SettingError(f"{path}: cannot read the project settings: {error.strerror}") from error
    try:
        settings = ProjectSettings.model_validate(data)
    except ValidationError as error:
        problems = problems_of(error, model=ProjectSettings, written={})
        raise SettingError(report(path, problems, lines=_lines(text, data))) from error
    folder = path.absolute().parent
    return Project(
        folder=folder,
        storage_root=absolute(settings.storage_root, base=folder),
        recipes=absolute(settings.recipes, base=folder),
        devices=settings.devices,
        lock_wait_minutes=settings.lock_wait_minutes,
        cpu_workers=settings.cpu_workers,
        gpu_op_tags=settings.gpu_op_tags,
    )


def _named(path: Path, *, origin: str) -> Path:
    path = Path(os.path.expanduser(path))
    file = path if path.is_file() else path / PROJECT_FILE
    if not file.is_file():
        raise SettingError(
            f"{origin} is {path}, but there is no {PROJECT_FILE}; `diffprep new DIR` makes one"
        )
    return file


def _lines(text: str, data: Mapping[str, object]) -> dict[Location, int]:
    """The line of each top-level key, found by its spelling; tomllib keeps none."""
    lines: dict[Location, int] = {}
    for key in data:
        pattern = rf"""\s*\[?\s*["']?{re.escape(key)}["']?\s*[\].=]"""
        for number, line in enumerate(text.splitlines(), 1):
            if re.match(pattern, line):
                lines[(key,)] = number
                break
    return lines
