"""The tiny FLUX repository and diffusers' own pipeline over it, the reference of these tests."""

import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from diffusers.pipelines.flux.pipeline_flux import FluxPipeline

from diffprep_resources.demo.encoders import build_tiny_flux
from diffprep_resources.encoders.base import EncoderFamily, EncoderSettings
from diffprep_resources.encoders.families import family_for
from diffprep_resources.hub.models import ModelHub


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tiny_flux(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny") / "flux"
    build_tiny_flux(folder)
    return folder


@pytest.fixture(scope="session")
def other_flux(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same classes with other weights."""
    folder = tmp_path_factory.mktemp("tiny") / "other"
    build_tiny_flux(folder, seed=1)
    return folder


@pytest.fixture(scope="session")
def pipeline(tiny_flux: Path) -> FluxPipeline:
    """diffusers' pipeline in float32."""
    return FluxPipeline.from_pretrained(tiny_flux, local_files_only=True)


@pytest.fixture
def copy_of_flux(tiny_flux: Path, tmp_path: Path) -> Path:
    """A copy that the test may spoil."""
    return Path(shutil.copytree(tiny_flux, tmp_path / "flux"))


@pytest.fixture
def family(tiny_flux: Path) -> Callable[..., EncoderFamily]:
    """A function from settings to the tiny repository's encoders, in float32 by default."""

    def build(**settings: object) -> EncoderFamily:
        values = {
            "model_path": str(tiny_flux),
            "precision": "fp32",
            "t5_max_length": 64,
            **settings,
        }
        return family_for(EncoderSettings(**values), hub=ModelHub())  # pyright: ignore[reportArgumentType] "object" is not assignable to each field's type

    return build


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every attempt to reach another machine raises."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("something reached for the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.fixture
def pixels() -> Callable[..., np.ndarray]:
    """A function to seeded uint8 pictures (B, H, W, 3): smooth ramps with noise."""

    def draw(count: int, *, height: int = 64, width: int = 96) -> np.ndarray:
        rng = np.random.default_rng(0)
        ramp = np.linspace(0, 200, width)[None, None, :, None] * np.ones((count, height, 1, 3))
        colours = rng.random((count, 1, 1, 3))
        noise = rng.random((count, height, width, 3)) * 55
        return (ramp * colours + noise).astype(np.uint8)

    return draw


@pytest.fixture
def difference() -> Callable[[torch.Tensor, torch.Tensor], float]:
    """Largest difference, relative to the largest wanted value."""

    def measure(got: torch.Tensor, wanted: torch.Tensor) -> float:
        assert got.shape == wanted.shape
        return ((got - wanted).abs().max() / wanted.abs().max()).item()

    return measure


@pytest.fixture
def close(difference: Callable[[torch.Tensor, torch.Tensor], float]) -> Callable[..., bool]:
    """Whether two float32 tensors agree within 1e-5 of the largest value."""
    return lambda got, wanted: difference(got, wanted) < 1e-5
