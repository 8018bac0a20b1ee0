"""Dagster's webserver and daemon for a project, as `dagster dev` starts them, all or none."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from diffprep_assets.project import PROJECT_FILE, PROJECT_VARIABLE, Project
from diffprep_resources.errors import SettingError

ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}
PORTS_TRIED = 20
LOOK_S = 0.2
# A run that is stopped ends its batch and records what is done; the others go within seconds.
GENTLE_S = 30.0
FIRM_S = 5.0


def address(host: str, port: int) -> str:
    """What a browser is given."""
    name = ANY_ADDRESS.get(host, host)
    return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"


def check_free(host: str, port: int) -> None:
    """Raises SettingError where nothing can listen: the port is taken, or the host is not ours."""
    problem = _why_not(host, port)
    if problem is None:
        return
    free = (other for other in range(port + 1, min(port + PORTS_TRIED, 65_536)))
    other = next((other for other in free if _why_not(host, other) is None), None)
    way_out = "" if other is None else f"; --port {other} is free"
    raise SettingError(f"cannot listen on {host}, port {port}: {problem}{way_out}")


def _why_not(host: str, port: int) -> str | None:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, _, _, place in found:
            with socket.socket(family, kind) as trial:
                trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                trial.bind(place)
    except OSError as error:
        return error.strerror or str(error)
    return None


def answers(host: str, port: int) -> bool:
    """Whether the webserver is up."""
    try:
        with urllib.request.urlopen(f"{address(host, port)}/server_info", timeout=5):
            return True
    except (urllib.error.URLError, OSError):
        return False


@contextmanager
def dagster_dev(project: Project, *, host: str, port: int) -> Iterator["subprocess.Popen[bytes]"]:
    """`dagster dev` for the project's recipes; at the end, no process of it is left.

    It leads a process group of its own, which all that it starts belongs to, runs too. The caller
    has set DAGSTER_HOME.
    """
    command = [sys.executable, "-m", "dagster", "dev", "--host", host, "--port", str(port)]
    # Warnings and errors of the servers, and of the recipes as they load.
    command += ["--log-level", "warning"]
    workspace = project.folder / "workspace.yaml"
    if workspace.exists():
        command += ["--workspace", str(workspace)]
    else:
        command += ["--module-name", "diffprep_assets.definitions"]
    environment = {
        **os.environ,
        PROJECT_VARIABLE: str(project.folder / PROJECT_FILE),
        # That `dg dev` is to be preferred to `dagster dev`.
        "PYTHONWARNINGS": "ignore",
    }
    # Not the project's folder: `dagster dev` puts its own on Python's path, so that a file there
    # with a library's name breaks it, and lets a `.env` there override the environment.
    home = os.environ["DAGSTER_HOME"]
    server = subprocess.Popen(command, cwd=home, env=environment, start_new_session=True)
    try:
        yield server
    finally:
        _stop(server)


def _stop(server: "subprocess.Popen[bytes]") -> None:
    """SIGTERM for the whole group: SIGINT does the same, with tracebacks on the terminal."""
    for number, wait_s in ((signal.SIGTERM, GENTLE_S), (signal.SIGINT, FIRM_S)):
        _tell(server, number)
        deadline = time.monotonic() + wait_s
        while _is_alive(server) and time.monotonic() < deadline:
            time.sleep(LOOK_S)
    _tell(server, signal.SIGKILL)
    server.wait()


def _tell(server: "subprocess.Popen[bytes]", number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(server.pid, number)


def _is_alive(server: "subprocess.Popen[bytes]") -> bool:
    """Whether any process of the group is left, once the leader is reaped."""
    if server.poll() is None:
        return True
    try:
        os.killpg(server.pid, 0)
    except ProcessLookupError:
        return False
    return True


@contextmanager
def stop_signals() -> Iterator[list[int]]:
    """The signals that asked to stop since the block began; none of them ends this process.

    What is started in the block does not inherit an ignored SIGINT, which a process that a script
    put into the background has.
    """
    asked: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        asked.append(number)

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, note) for number in numbers}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
