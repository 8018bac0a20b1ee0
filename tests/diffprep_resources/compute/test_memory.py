import pytest
import torch

from diffprep_resources.compute.memory import memory_held, memory_peak


def test_on_the_cpu_it_is_what_this_process_has_in_memory():
    before = memory_held("cpu")
    block = bytearray(64_000_000)
    after = memory_held("cpu")
    assert after.used_bytes - before.used_bytes > 0.9 * len(block)
    assert before.total_bytes is None


def test_a_device_that_is_not_there_counts_as_this_process():
    if not torch.cuda.is_available():
        assert memory_held("cuda:0").total_bytes is None


@pytest.mark.gpu
def test_on_a_gpu_it_is_the_devices_own():
    before = memory_held("cuda:0")
    block = torch.zeros(500_000_000, dtype=torch.uint8, device="cuda:0")
    after = memory_held("cuda:0")
    assert after.used_bytes - before.used_bytes >= 0.9 * block.numel()
    assert (after.total_bytes or 0) > after.used_bytes


def test_the_peak_stays_when_memory_is_given_back():
    block = bytearray(64_000_000)
    held = memory_held("cpu").used_bytes
    del block
    assert memory_peak("cpu") >= 0.99 * held
