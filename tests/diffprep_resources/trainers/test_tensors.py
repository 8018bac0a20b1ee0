import io
import os
import pickle
from pathlib import Path

import pytest
import torch

from diffprep_resources.trainers.tensors import tensor_from_bytes


def saved(value: object) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


class Bomb:
    def __reduce__(self) -> tuple:
        return os.mkdir, ("exploded",)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_a_tensor_comes_back_in_its_dtype(dtype: torch.dtype) -> None:
    tensor = torch.randn(3, 4).to(dtype)
    assert torch.equal(tensor_from_bytes(saved(tensor), name="x"), tensor)


@pytest.mark.parametrize("value", [[torch.zeros(1)], {"x": 1}, torch.nn.Parameter(torch.ones(2))])
def test_anything_but_one_plain_tensor_is_refused_by_name(value: object) -> None:
    with pytest.raises(ValueError, match=r"latents\.pth must hold one plain tensor"):
        tensor_from_bytes(saved(value), name="latents.pth")


@pytest.mark.filterwarnings("ignore")
def test_a_pickle_never_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for data in (saved(Bomb()), pickle.dumps(Bomb())):
        with pytest.raises(pickle.UnpicklingError):
            tensor_from_bytes(data, name="x")
        assert not (tmp_path / "exploded").exists()
