"""The project's `.env`, read before Dagster is imported, as the dagster commands read it."""

import os
from importlib.resources import files
from pathlib import Path

from dotenv import dotenv_values

from diffprep_assets.project import Project
from diffprep_resources.storage.atomic import write_bytes


def use_dagster_home(project: Project) -> None:
    """Set what the project's `.env` says, where the environment does not already.

    `${PWD}` in it means the project's folder: dagster's own commands run from there.
    """
    before = os.environ.get("PWD")
    os.environ["PWD"] = str(project.folder)
    try:
        values = dotenv_values(project.folder / ".env")
    finally:
        if before is None:
            del os.environ["PWD"]
        else:
            os.environ["PWD"] = before
    values.setdefault("DAGSTER_HOME", str(project.folder / ".dagster"))
    values.setdefault("DAGSTER_EMIT_PARTITION_SUBSET_IN_PLANNED_EVENTS", "1")
    for name, value in values.items():
        if value is not None and not os.environ.get(name):
            os.environ[name] = value
    home = Path(os.environ["DAGSTER_HOME"])
    settings = home / "dagster.yaml"
    if home == project.folder / ".dagster" and not settings.exists():
        template = files("diffprep_assets") / "project_template" / settings.name
        write_bytes(settings, template.read_bytes())
    home.mkdir(parents=True, exist_ok=True)
