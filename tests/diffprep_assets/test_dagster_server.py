import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from diffprep_assets.cli import app
from diffprep_assets.dagster_server import address, check_free, stop_signals
from diffprep_resources.errors import SettingError


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that somebody listens on."""
    holder = socket.socket()
    holder.bind(("127.0.0.1", 0))
    holder.listen()
    yield holder.getsockname()[1]
    holder.close()


def test_a_port_that_is_taken_is_refused_and_another_named(taken: int):
    with pytest.raises(SettingError, match=f"port {taken}: .* in use; --port \\d+ is free"):
        check_free("127.0.0.1", taken)


def test_a_host_that_is_not_this_machine_is_refused():
    with pytest.raises(SettingError, match=r"cannot listen on 192\.0\.2\.1"):
        check_free("192.0.2.1", 3000)


def test_the_command_says_so_before_it_starts_anything(tmp_path: Path, taken: int):
    (tmp_path / "dagster_project.toml").touch()
    command = ["ui", "--port", str(taken), "--project", str(tmp_path)]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 2
    assert "in use" in result.output
    assert not (tmp_path / ".dagster").exists()


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        ("127.0.0.1", "http://127.0.0.1:3000"),
        ("0.0.0.0", "http://127.0.0.1:3000"),
        ("::1", "http://[::1]:3000"),
        ("box", "http://box:3000"),
    ],
)
def test_the_address_is_one_that_a_browser_can_open(host: str, shown: str):
    assert address(host, 3000) == shown


def test_signals_are_noted_and_their_handlers_come_back():
    before = signal.getsignal(signal.SIGINT)
    with stop_signals() as asked:
        assert not asked
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)
        assert asked == [signal.SIGINT, signal.SIGTERM]
    assert signal.getsignal(signal.SIGINT) is before
