"""Leases are tried with devices that only have a name: nothing here needs one."""

import os
import signal
import time
from pathlib import Path

import pytest
import torch

from diffprep_resources.errors import DatasetLockedError, SettingError
from diffprep_resources.gpu_pool.file_lease import FileLeasePool, num_devices


def pool(folder: Path, *devices: str, wait_s: float = 0.0) -> FileLeasePool:
    return FileLeasePool(devices=devices, lock_folder=folder / ".devices", wait_s=wait_s)


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with two CUDA devices, as far as torch says."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.mark.usefixtures("no_gpu")
def test_the_cpu_is_shared_and_needs_no_lease(tmp_path: Path):
    assert pool(tmp_path, "auto").devices == ("cpu",)
    with pool(tmp_path, "auto").lease() as one, pool(tmp_path, "cpu").lease() as two:
        assert list(one) == list(two) == ["cpu"]
    assert not (tmp_path / ".devices").exists()


@pytest.mark.usefixtures("no_gpu")
def test_a_device_that_the_machine_lacks_is_refused(tmp_path: Path):
    for device in ("cuda", "cuda:0"):
        with (
            pytest.raises(SettingError, match=f"device {device}: this machine has 0 CUDA devices"),
            pool(tmp_path, "auto").lease(device),
        ):
            pass


@pytest.mark.usefixtures("two_gpus")
def test_a_stage_takes_every_free_device_and_the_next_one_waits(tmp_path: Path):
    assert pool(tmp_path, "auto").devices == ("cuda:0", "cuda:1")
    with pool(tmp_path, "auto").lease() as devices:
        assert list(devices) == ["cuda:0", "cuda:1"]
        with (
            pytest.raises(DatasetLockedError, match="no device came free") as caught,
            pool(tmp_path, "auto").lease(),
        ):
            pass
        for name in ("cuda:0", "cuda:1"):
            who = f"{name} is held by a stage on {name} (process {os.getpid()}, since "
            assert who in str(caught.value)
    with pool(tmp_path, "auto").lease("cuda:1") as one:
        assert list(one) == ["cuda:1"]
        with pool(tmp_path, "auto").lease() as rest:
            assert list(rest) == ["cuda:0"]


@pytest.mark.usefixtures("two_gpus")
def test_the_devices_of_a_killed_process_are_free_at_once(tmp_path: Path):
    """Also while it is not reaped."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        with pool(tmp_path, "auto").lease():
            os.write(writing, b"!")
            time.sleep(60)
        os._exit(0)
    os.read(reading, 1)
    with pytest.raises(DatasetLockedError), pool(tmp_path, "auto").lease("cuda:1"):
        pass
    os.kill(child, signal.SIGKILL)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    with pool(tmp_path, "auto").lease() as devices:
        assert list(devices) == ["cuda:0", "cuda:1"]
    os.waitpid(child, 0)


@pytest.mark.usefixtures("two_gpus")
def test_a_step_that_waits_takes_what_comes_free(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    first = pool(tmp_path, "auto").lease("cuda:1")
    first.__enter__()
    taken, take = os.pipe()
    child = os.fork()
    if child == 0:
        with pool(tmp_path, "auto").lease("cuda:0"):
            os.write(take, b"!")
            time.sleep(1)
        os._exit(0)
    assert os.read(taken, 1) == b"!"
    with pool(tmp_path, "auto", wait_s=30).lease() as devices:
        assert list(devices) == ["cuda:0"]
    assert [record.message.split(" (")[0] for record in caplog.records] == [
        "waiting for a device: cuda:0 is held by a stage on cuda:0"
    ]
    first.__exit__(None, None, None)
    os.waitpid(child, 0)


def test_a_project_that_names_devices_has_that_many():
    assert num_devices(["cuda:0", "cuda:2"]) == 2
    assert num_devices(["cpu"]) == 1
    assert num_devices([]) >= 1
