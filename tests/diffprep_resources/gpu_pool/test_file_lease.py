"""Leases are tried with devices that only have a name: nothing here needs one."""

from pathlib import Path

import pytest
import torch

from diffprep_resources.errors import DatasetLockedError, SettingError
from diffprep_resources.gpu_pool.file_lease import FileLeasePool


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
            pytest.raises(DatasetLockedError, match="no device came free"),
            pool(tmp_path, "auto").lease(),
        ):
            pass
    with pool(tmp_path, "auto").lease("cuda:1") as one:
        assert list(one) == ["cuda:1"]
        with pool(tmp_path, "auto").lease() as rest:
            assert list(rest) == ["cuda:0"]
