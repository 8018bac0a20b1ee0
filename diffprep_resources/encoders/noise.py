"""Noise that belongs to a sample: the same in every batch, on every device, in every run."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import xxhash

if TYPE_CHECKING:
    import torch

# torch's CPU generator takes the low 32 bits of its seed. An odd factor maps the ids 0 .. 2^32 - 1
# one to one onto these, so that no two samples of a dataset share their noise.
_BITS = 32
_ODD_FACTOR = 0x9E3779B1


def sample_seed(seed: int, *, sample_id: int) -> int:
    """32-bit seed of one sample's generator; distinct for distinct ids below 2^32."""
    start = xxhash.xxh32_intdigest(f"diffprep noise {seed}".encode())
    return (start + sample_id * _ODD_FACTOR) % (1 << _BITS)


def sample_noise(shape: tuple[int, ...], *, seed: int, sample_ids: Sequence[int]) -> "torch.Tensor":
    """Standard normal noise (B, *shape), float32 on the CPU; each row from its sample's seed."""
    import torch

    rows = torch.empty((len(sample_ids), *shape), dtype=torch.float32)
    for row, sample_id in zip(rows, sample_ids, strict=True):
        generator = torch.Generator().manual_seed(sample_seed(seed, sample_id=sample_id))
        row.normal_(generator=generator)
    return rows
