from pathlib import Path

import numpy as np
import pytest

from diffprep_resources.demo.wan import build_tiny_wan
from diffprep_resources.encoders.base import ClipEncoderFamily, EncoderSettings
from diffprep_resources.encoders.families import family_for
from diffprep_resources.encoders.vae_codec import find_vae
from diffprep_resources.encoders.wan_codec import WanCodec
from diffprep_resources.hub.models import ModelHub

FRAMES, HEIGHT, WIDTH = 5, 32, 48


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("wan") / "i2v"
    build_tiny_wan(path, workload="i2v")
    return path


@pytest.fixture
def codec(folder: Path) -> WanCodec:
    return WanCodec(find_vae(str(folder), hub=ModelHub()), device="cpu")


def clip() -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.integers(0, 256, (FRAMES, HEIGHT, WIDTH, 3), dtype=np.uint8)


def test_a_clip_goes_to_the_encoders_latents_and_back_to_its_shape(
    codec: WanCodec, folder: Path
) -> None:
    settings = EncoderSettings(model_path=str(folder), precision="fp32", workload="i2v")
    family = family_for(settings, hub=ModelHub())
    latents = codec.mean(clip())
    wanted = family.latents_encoder("cpu").encode(clip()[None], sample_ids=[0])["latents"]
    assert np.array_equal(latents, wanted[0].numpy())
    pixels = codec.decoded(latents)
    assert (pixels.shape, pixels.dtype) == ((FRAMES, HEIGHT, WIDTH, 3), np.float32)
    assert np.abs(pixels).max() <= 1


def test_normalised_latents_are_those_of_the_first_frames_encoder(
    codec: WanCodec, folder: Path
) -> None:
    settings = EncoderSettings(model_path=str(folder), precision="fp32", workload="i2v")
    family = family_for(settings, hub=ModelHub())
    assert isinstance(family, ClipEncoderFamily)
    grey = codec.mean(clip()[:1])
    encoder = family.first_frame_encoder("cpu")
    wanted = encoder.encode(clip()[:1], num_frames=1)["first_frame_latents"][0].numpy()
    assert np.array_equal(codec.normalised(grey), wanted)
    assert np.abs(codec.raw(codec.normalised(grey)) - grey).max() < 1e-5
