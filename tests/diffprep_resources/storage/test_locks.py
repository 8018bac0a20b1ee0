import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from diffprep_resources.errors import DatasetLockedError
from diffprep_resources.storage.locks import hold, holder_of, is_held

HOLDER = """
import sys
from pathlib import Path
from diffprep_resources.storage.locks import hold
with hold(Path(sys.argv[1]), holder="the other", shared=sys.argv[2] == "shared"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    return tmp_path / "demo" / ".locks" / "dataset.lock"


@contextmanager
def held_elsewhere(lock: Path, *, shared: bool = False) -> Iterator[subprocess.Popen[str]]:
    """A real process that holds the lock."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, lock, "shared" if shared else "alone"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def test_a_held_lock_is_refused_at_once_naming_dataset_holder_and_process(lock: Path):
    with held_elsewhere(lock) as other:
        assert is_held(lock)
        begin = time.monotonic()
        with pytest.raises(DatasetLockedError) as refused, hold(lock, holder="me"):
            pass
        assert time.monotonic() - begin < 0.5
        words = f"demo is in use: held by the other (process {other.pid}, since "
        assert str(refused.value).startswith(words)
        with pytest.raises(DatasetLockedError), hold(lock, holder="me", shared=True):
            pass


def test_a_lock_that_cannot_be_written_names_its_file(lock: Path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    lock.parent.mkdir(parents=True)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        with pytest.raises(OSError, match=str(lock)), hold(lock, holder="me"):
            pass
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not is_held(lock)
    with hold(lock, holder="me"):
        assert holder_of(lock).startswith("me (process ")


def test_shared_holders_go_together_and_keep_an_exclusive_one_out(lock: Path):
    with held_elsewhere(lock, shared=True):
        with hold(lock, holder="me", shared=True):
            assert is_held(lock)
        with pytest.raises(DatasetLockedError), hold(lock, holder="me"):
            pass


def test_a_killed_holder_frees_the_lock_at_once_even_before_it_is_reaped(lock: Path):
    with held_elsewhere(lock) as other:
        os.kill(other.pid, signal.SIGKILL)
        # Its end is known to the kernel, but nobody has waited for it: it is a zombie.
        os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)
        os.kill(other.pid, 0)
        assert not is_held(lock)
        with hold(lock, holder="me"):
            assert holder_of(lock).startswith(f"me (process {os.getpid()}, since ")


def test_waiting_says_for_whom_once_and_takes_the_lock_when_it_comes_free(lock: Path):
    told: list[str] = []
    with held_elsewhere(lock) as other:
        threading.Timer(0.5, other.kill).start()
        with hold(lock, holder="me", wait_s=20, waiting=told.append):
            assert is_held(lock)
    assert len(told) == 1
    assert told[0].startswith("waiting for the other")


def test_waiting_too_long_says_how_long(lock: Path):
    with (
        held_elsewhere(lock),
        pytest.raises(DatasetLockedError, match="after waiting 1 s: held by the other"),
        hold(lock, holder="me", wait_s=1),
    ):
        pass


def test_a_second_descriptor_of_one_process_conflicts_and_the_file_is_gone_afterwards(lock: Path):
    with (
        hold(lock, holder="me"),
        pytest.raises(DatasetLockedError),
        hold(lock, holder="me again"),
    ):
        pass
    assert not lock.exists()
    assert not is_held(lock)
    assert holder_of(lock) == "another process"


def test_an_error_in_the_block_frees_the_lock(lock: Path):
    with pytest.raises(RuntimeError, match="stop"), hold(lock, holder="me"):
        raise RuntimeError("stop")
    with hold(lock, holder="me"):
        pass
