"""`diffprep ui`: a project in a browser, with schedules and backfills, until Ctrl-C."""

import os
import time
from pathlib import Path
from typing import Annotated

import typer

from diffprep_assets.console import ProjectDir, err, explained, out
from diffprep_assets.dagster_home import use_dagster_home
from diffprep_assets.dagster_server import (
    LOOK_S,
    address,
    answers,
    check_free,
    dagster_dev,
    stop_signals,
)
from diffprep_assets.project import Project, find_project
from diffprep_resources.errors import DiffprepError
from diffprep_resources.gpu_pool.file_lease import num_devices

LOOPBACK = ("127.0.0.1", "localhost", "::1")


@explained
def ui(
    port: Annotated[int, typer.Option(min=1, max=65_535, help="port to listen on")] = 3000,
    host: Annotated[str, typer.Option(help="address to listen on")] = LOOPBACK[0],
    project: ProjectDir = None,
) -> None:
    """Show the project in a browser: Dagster's web UI, with schedules and backfills."""
    found = find_project(Path.cwd(), project)
    check_free(host, port)
    prepare_home(found)
    err.print(f"starting Dagster for {found.folder} ...", soft_wrap=True, highlight=False)
    with stop_signals() as asked, dagster_dev(found, host=host, port=port) as server:
        shown = False
        while server.poll() is None and not asked:
            if not shown and answers(host, port):
                shown = True
                _say_where(host, port)
            time.sleep(LOOK_S)
        ended = server.poll()
        if asked:
            err.print("stopping; a run in progress keeps what is finished", soft_wrap=True)
    if not asked:
        raise DiffprepError(f"Dagster ended by itself with code {ended}; what it said is above")


def prepare_home(project: Project) -> None:
    """Dagster's folder for the project: its settings, its variables, and the `gpu` pool's slots."""
    use_dagster_home(project)
    from diffprep_assets import jobs

    with jobs.instance() as instance:
        jobs.set_pool_limit(instance, num_devices(project.devices))
        if not instance.run_monitoring_enabled:
            err.print(
                f"note: run monitoring is off in {os.environ['DAGSTER_HOME']}, so a run that is "
                f"killed stays `started` until the next run of its dataset",
                soft_wrap=True,
            )


def _say_where(host: str, port: int) -> None:
    out.print(f"{address(host, port)}   (Ctrl-C stops it)", soft_wrap=True, highlight=False)
    if host not in LOOPBACK:
        err.print(
            f"note: all who reach {host} can start and stop runs; Dagster asks for no password",
            soft_wrap=True,
        )
