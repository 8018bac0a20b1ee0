"""Wan's encoders against diffusers' own pipelines on the same tiny folders, in float32."""

import html
import shutil
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from diffusers.models.autoencoders.autoencoder_kl_wan import AutoencoderKLWan
from diffusers.pipelines.wan.pipeline_wan import WanPipeline, prompt_clean
from diffusers.pipelines.wan.pipeline_wan_i2v import WanImageToVideoPipeline
from PIL import Image

from diffprep_resources.captions.cleaning import cleaned
from diffprep_resources.demo.wan import build_tiny_wan
from diffprep_resources.encoders.base import ClipEncoderFamily, EncoderSettings
from diffprep_resources.encoders.families import clip_family, family_for
from diffprep_resources.encoders.loading import quiet_libraries
from diffprep_resources.errors import ModelError, SettingError
from diffprep_resources.hub.models import ModelHub

FRAMES, HEIGHT, WIDTH = 9, 48, 64
CAPTIONS = (
    "a large red circle in the middle on a mint background",
    "",
    "  caf\u00c3\u00a9 &amp;amp; \u201csmart\u201d\n\tquotes  ",
    "a star " * 400,
)
Build = Callable[..., ClipEncoderFamily]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("wan")
    build_tiny_wan(root / "t2v")
    build_tiny_wan(root / "i2v", workload="i2v")
    return {"t2v": root / "t2v", "i2v": root / "i2v"}


@pytest.fixture(scope="module")
def pipelines(folders: dict[str, Path]) -> dict[str, Any]:
    """diffusers' own, without the transformer. The dtype is not optional: without it a checkpoint
    of another one keeps it."""
    kinds = {"t2v": WanPipeline, "i2v": WanImageToVideoPipeline}
    with quiet_libraries():
        return {
            name: kind.from_pretrained(
                folders[name], transformer=None, dtype=torch.float32, local_files_only=True
            )
            for name, kind in kinds.items()
        }


@pytest.fixture
def wan(folders: dict[str, Path]) -> Build:
    def build(workload: str = "t2v", **settings: object) -> ClipEncoderFamily:
        values = {
            "model_path": str(folders[workload]),
            "workload": workload,
            "precision": "fp32",
            **settings,
        }
        family = family_for(EncoderSettings(**values), hub=ModelHub())  # pyright: ignore[reportArgumentType] "object" is not assignable to each field's type
        assert isinstance(family, ClipEncoderFamily)
        return family

    return build


@pytest.fixture(scope="module")
def clips() -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.integers(0, 256, (2, FRAMES, HEIGHT, WIDTH, 3), dtype=np.uint8)


def in_range(pixels_BTHWC: np.ndarray) -> torch.Tensor:
    """(B, 3, T, H, W) in [-1, 1], as diffusers' VideoProcessor makes it."""
    return torch.from_numpy(pixels_BTHWC.astype(np.float32) / 255.0).permute(0, 4, 1, 2, 3) * 2 - 1


def test_latents_equal_the_vaes_mode(
    wan: Build, pipelines: dict[str, Any], clips: np.ndarray
) -> None:
    family = wan()
    got = family.latents_encoder("cpu").encode(clips, sample_ids=[0, 1])["latents"]
    with torch.no_grad():
        wanted = pipelines["t2v"].vae.encode(in_range(clips)).latent_dist.mode()
    assert torch.equal(got, wanted)
    assert family.latents_layout(WIDTH, HEIGHT, num_frames=FRAMES) == {
        "latents": ("float32", tuple(got.shape[1:]))
    }
    assert not got.is_inference()


def test_text_equals_encode_prompt(wan: Build, pipelines: dict[str, Any]) -> None:
    encoder = wan(caption_cleaning="diffusers").text_encoder("cpu")
    got = encoder.encode(CAPTIONS)
    with torch.no_grad():
        wanted, _ = pipelines["t2v"].encode_prompt(
            list(CAPTIONS), do_classifier_free_guidance=False, max_sequence_length=512
        )
    assert torch.equal(got["prompt_embeds"], wanted)
    lengths = got["prompt_length"][:, 0].tolist()
    counts = encoder.token_counts(CAPTIONS)["t5"]
    assert lengths == [min(count, 512) for count in counts]
    assert (lengths[1], lengths[3]) == (1, 512)
    assert encoder.row_layout()["prompt_embeds"] == ("float32", (512, 32))
    assert bool(got["prompt_embeds"][1, 1:].eq(0).all())


def test_without_cleaning_the_caption_is_encoded_verbatim(wan: Build) -> None:
    cleaning, verbatim = wan(caption_cleaning="diffusers"), wan()
    odd, clean = CAPTIONS[2], prompt_clean(CAPTIONS[2])
    assert odd != clean
    got = verbatim.text_encoder("cpu").encode([odd])["prompt_embeds"]
    wanted = cleaning.text_encoder("cpu").encode([odd])["prompt_embeds"]
    assert not torch.equal(got, wanted)
    assert torch.equal(verbatim.text_encoder("cpu").encode([clean])["prompt_embeds"], wanted)


@pytest.mark.parametrize(
    "caption",
    [*CAPTIONS[:3], html.escape(html.escape("<a & b>")), "\u3000a\x1cb\u00a0c\u2028d", "&nbsp;x"],
)
def test_cleaning_equals_diffusers(caption: str) -> None:
    assert cleaned(caption, cleaning="diffusers") == prompt_clean(caption)
    assert cleaned(caption, cleaning="none") == caption


def test_image_features_equal_encode_image(
    wan: Build, pipelines: dict[str, Any], clips: np.ndarray
) -> None:
    encoder = wan("i2v").image_encoder("cpu")
    got = encoder.encode(clips[:, 0], num_frames=FRAMES)["clip_feature"]
    images = [Image.fromarray(frame) for frame in clips[:, 0]]
    with torch.no_grad():
        wanted = pipelines["i2v"].encode_image(images)
    assert torch.equal(got, wanted)
    assert encoder.row_layout(WIDTH, HEIGHT, num_frames=FRAMES) == {
        "clip_feature": ("float32", tuple(got.shape[1:]))
    }


def test_first_frame_latents_equal_prepare_latents(
    wan: Build, pipelines: dict[str, Any], clips: np.ndarray
) -> None:
    encoder = wan("i2v").first_frame_encoder("cpu")
    got = encoder.encode(clips[:1, 0], num_frames=FRAMES)["first_frame_latents"]
    first = in_range(clips[:1, :1])[:, :, 0]
    with torch.no_grad():
        _, condition = pipelines["i2v"].prepare_latents(
            first,
            batch_size=1,
            height=HEIGHT,
            width=WIDTH,
            num_frames=FRAMES,
            dtype=torch.float32,
            device=torch.device("cpu"),
        )
    assert torch.equal(got, condition[:, 4:])
    layout = encoder.row_layout(WIDTH, HEIGHT, num_frames=FRAMES)
    assert layout == {"first_frame_latents": ("float32", tuple(got.shape[1:]))}


def test_only_image_to_video_has_an_image_encoder(wan: Build) -> None:
    assert set(wan("i2v").identities()) == {"vae", "t5", "clip"}
    family = wan()
    assert (set(family.identities()), family.has_image_features) == ({"vae", "t5"}, False)
    with pytest.raises(ModelError, match="no image_encoder"):
        family.image_encoder("cpu")


def test_a_model_without_image_encoder_gives_first_frames_all_the_same(
    wan: Build, folders: dict[str, Path]
) -> None:
    """As Wan 2.2's image-to-video model."""
    family = wan("i2v", model_path=str(folders["t2v"]))
    assert not family.has_image_features
    assert family.first_frame_layout(WIDTH, HEIGHT, num_frames=FRAMES)


def test_the_preprocessor_belongs_to_the_image_encoders_identity(
    wan: Build, folders: dict[str, Path], tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folders["i2v"], copy)
    before, same = (
        wan("i2v").identities()["clip"],
        wan("i2v", model_path=str(copy)).identities()["clip"],
    )
    assert before.fingerprint == same.fingerprint
    file = copy / "image_processor/preprocessor_config.json"
    file.write_text(file.read_text("utf-8").replace("0.48145466", "0.5"), "utf-8")
    assert wan("i2v", model_path=str(copy)).identities()["clip"].fingerprint != before.fingerprint
    file.unlink()
    with pytest.raises(ModelError, match=r"no preprocessor_config.json found"):
        wan("i2v", model_path=str(copy))


@pytest.mark.parametrize(
    ("size", "frames", "words"),
    [
        ((830, 480), 77, "832x480 is nearest"),
        ((832, 470), 77, "832x464 is nearest"),
        ((832, 480), 80, "got 80; 81 is nearest"),
        ((832, 480), 78, "got 78; 77 is nearest"),
    ],
)
def test_what_the_vae_would_cut_off_is_refused_with_the_nearest(
    wan: Build, size: tuple[int, int], frames: int, words: str
) -> None:
    family = wan()
    with pytest.raises(SettingError, match=words):
        family.latents_layout(*size, num_frames=frames)
    assert family.latents_layout(832, 480, num_frames=77)["latents"][1] == (16, 20, 60, 104)


def test_half_precision_is_refused(wan: Build) -> None:
    with pytest.raises(SettingError, match="must be fp32 for Wan"):
        wan(precision="bf16")


def test_tiling_changes_latents_and_nothing_small(wan: Build, pipelines: dict[str, Any]) -> None:
    wide = np.random.default_rng(1).integers(0, 256, (1, 1, 32, 320, 3), dtype=np.uint8)
    plain, tiled = wan().latents_encoder("cpu"), wan(vae_tiling=True).latents_encoder("cpu")
    whole, tiles = (one.encode(wide, sample_ids=[0])["latents"] for one in (plain, tiled))
    assert whole.shape == tiles.shape
    assert not torch.equal(whole, tiles)
    narrow = wide[:, :, :, :256]
    assert torch.equal(
        plain.encode(narrow, sample_ids=[0])["latents"],
        tiled.encode(narrow, sample_ids=[0])["latents"],
    )
    with pipelines_tiled(pipelines["t2v"].vae) as vae, torch.no_grad():
        assert torch.equal(vae.encode(in_range(wide)).latent_dist.mode(), tiles)


class pipelines_tiled:
    """diffusers' own VAE with its tiling on."""

    def __init__(self, vae: Any) -> None:
        self.vae = vae

    def __enter__(self) -> Any:
        self.vae.enable_tiling()
        return self.vae

    def __exit__(self, *_: object) -> None:
        self.vae.disable_tiling()


def test_memory_that_does_not_hold_one_clip_names_the_setting_that_helps(
    wan: Build, clips: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 3 GiB")

    plain, tiled = wan().latents_encoder("cpu"), wan(vae_tiling=True).latents_encoder("cpu")
    monkeypatch.setattr(AutoencoderKLWan, "encode", full)
    with pytest.raises(torch.OutOfMemoryError):
        plain.encode(clips, sample_ids=[0, 1])
    with pytest.raises(ModelError, match=r"9 frames of 64x48; video.vae_tiling: true"):
        plain.encode(clips[:1], sample_ids=[0])
    with pytest.raises(ModelError, match="fewer or smaller frames"):
        tiled.encode(clips[:1], sample_ids=[0])


def test_the_modules_that_workers_share_are_those_of_the_encoders_loaded(wan: Build) -> None:
    shared = {workload: wan(workload).modules for workload in ("t2v", "i2v")}
    assert set(shared["i2v"]) - set(shared["t2v"]) == {"transformers.models.clip.modeling_clip"}
    assert all(find_spec(name) is not None for name in shared["i2v"])


def test_encoders_of_pictures_are_refused_where_clips_are_asked_for(
    wan: Build, tiny_flux: Path
) -> None:
    family = wan()
    assert clip_family(family) is family
    pictures = family_for(EncoderSettings(model_path=str(tiny_flux)), hub=ModelHub())
    with pytest.raises(ModelError, match="a model that makes clips: WanPipeline"):
        clip_family(pictures)


def test_another_vae_or_text_encoder_is_refused(
    wan: Build, tiny_flux: Path, folders: dict[str, Path]
) -> None:
    with pytest.raises(ModelError, match="must be an AutoencoderKLWan, got AutoencoderKL"):
        wan(vae_path=str(tiny_flux))
    with pytest.raises(ModelError, match="model_type must be umt5, got 't5'"):
        wan(t5_path=str(tiny_flux / "text_encoder_2"))


def test_pictures_encoders_refuse_clips(family: Callable[..., Any]) -> None:
    with pytest.raises(SettingError, match="encodes single pictures"):
        family().latents_layout(64, 64, num_frames=5)
