from pathlib import Path

import pytest

from diffprep_resources.demo.wan import build_tiny_wan
from diffprep_resources.encoders.base import ClipEncoderFamily, EncoderSettings, Workload
from diffprep_resources.encoders.families import family_for
from diffprep_resources.fastvideo.shapes import tensor_shapes
from diffprep_resources.hub.models import ModelHub


def family_of(folder: Path, workload: Workload) -> ClipEncoderFamily:
    settings = EncoderSettings(model_path=str(folder), precision="fp32", workload=workload)
    family = family_for(settings, hub=ModelHub())
    assert isinstance(family, ClipEncoderFamily)
    return family


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("wan") / "i2v"
    build_tiny_wan(path, workload="i2v")
    return path


def test_shapes_come_from_the_encoders(folder: Path) -> None:
    size = {"width": 48, "height": 32, "num_frames": 9}
    clip = {"vae_latent": (16, 3, 4, 6), "text_embedding": (512, 32)}
    assert tensor_shapes(family_of(folder, "t2v"), **size, workload="t2v") == clip
    assert tensor_shapes(family_of(folder, "i2v"), **size, workload="i2v") == {
        **clip,
        "clip_feature": (17, 32),
        "first_frame_latent": (16, 3, 4, 6),
        "pil_image": (3, 32, 48),
    }


def test_a_feature_that_no_encoder_gives_is_empty(folder: Path) -> None:
    without = family_of(folder, "t2v")
    shapes = tensor_shapes(without, width=48, height=32, num_frames=9, workload="i2v")
    assert shapes["clip_feature"] is None
