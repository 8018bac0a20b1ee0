"""Tensors out of a tar member's bytes, without ever running a pickle."""

import io

import torch


def tensor_from_bytes(data: bytes, *, name: str) -> torch.Tensor:
    """The plain tensor that `torch.save` wrote, on the CPU, in its stored dtype.

    ValueError naming `name` when the bytes hold anything else. webdataset's own decoder is not
    used: it calls torch.load with `weights_only=False` (webdataset 1.0, autodecode.py).
    """
    value = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    if type(value) is not torch.Tensor:
        raise ValueError(f"{name} must hold one plain tensor, got {type(value).__name__}")
    return value
