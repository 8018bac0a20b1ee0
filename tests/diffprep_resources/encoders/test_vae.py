import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from diffusers.models.autoencoders.autoencoder_kl import AutoencoderKL
from diffusers.pipelines.flux.pipeline_flux import FluxPipeline
from PIL import Image

from diffprep_resources.encoders.base import EncoderFamily
from diffprep_resources.encoders.noise import sample_noise
from diffprep_resources.errors import ModelError, SettingError

Build = Callable[..., EncoderFamily]


def posterior(pipeline: FluxPipeline, pixels: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and log variance that diffusers gives, from PIL pictures through its own processor."""
    pictures = [Image.fromarray(row) for row in pixels]
    with torch.no_grad():
        inputs = pipeline.image_processor.preprocess(pictures)
        distribution = pipeline.vae.encode(inputs).latent_dist
    return distribution.mean, distribution.logvar


def scaled(pipeline: FluxPipeline, z: torch.Tensor) -> torch.Tensor:
    config = pipeline.vae.config
    return (z - config.shift_factor) * config.scaling_factor


def test_resample_latents_are_diffusers_scaled_mode_and_its_raw_posterior(
    family: Build, pipeline: FluxPipeline, pixels: Callable[..., np.ndarray], close: Callable
) -> None:
    batch = pixels(4)
    encoded = (
        family(vae_latent_mode="resample").latents_encoder("cpu").encode(batch, sample_ids=range(4))
    )
    mean, logvar = posterior(pipeline, batch)
    assert set(encoded) == {"latents", "mean", "logvar"}
    assert close(encoded["mean"], mean)
    assert close(encoded["logvar"], logvar)
    assert close(encoded["latents"], scaled(pipeline, mean))


def test_presampled_latents_are_diffusers_posterior_with_each_samples_noise(
    family: Build, pipeline: FluxPipeline, pixels: Callable[..., np.ndarray], close: Callable
) -> None:
    batch = pixels(3)
    ids = [7, 123456, 2]
    encoded = family(seed=5).latents_encoder("cpu").encode(batch, sample_ids=ids)
    mean, logvar = posterior(pipeline, batch)
    noise = sample_noise(tuple(mean.shape[1:]), seed=5, sample_ids=ids)
    wanted = scaled(pipeline, mean + torch.exp(0.5 * logvar) * noise)
    assert set(encoded) == {"latents"}
    assert close(encoded["latents"], wanted)
    assert not close(encoded["latents"], scaled(pipeline, mean))


@pytest.mark.parametrize(("precision", "tolerance"), [("fp32", 1e-5), ("bf16", 0.02)])
def test_a_picture_alone_and_in_a_batch_agree(
    family: Build,
    pixels: Callable[..., np.ndarray],
    difference: Callable,
    precision: str,
    tolerance: float,
) -> None:
    encoder = family(precision=precision).latents_encoder("cpu")
    batch = pixels(16)
    together = encoder.encode(batch, sample_ids=range(16))["latents"]
    for row in range(16):
        alone = encoder.encode(batch[row : row + 1], sample_ids=[row])["latents"]
        assert difference(alone[0], together[row]) < tolerance


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_row_has_the_same_bytes_whatever_its_place_and_neighbours(
    family: Build, pixels: Callable[..., np.ndarray], precision: str
) -> None:
    encoder = family(precision=precision).latents_encoder("cpu")
    batch = pixels(4)
    first = encoder.encode(batch, sample_ids=[0, 1, 2, 3])["latents"]
    turned = encoder.encode(batch[::-1], sample_ids=[3, 2, 1, 0])["latents"]
    padded = np.zeros_like(batch)
    padded[0] = batch[2]
    alone = encoder.encode(padded, sample_ids=[2, -1, -1, -1])["latents"]
    assert torch.equal(first, turned.flip(0))
    assert torch.equal(first[2], alone[0])


def test_another_seed_and_another_id_give_other_latents(
    family: Build, pixels: Callable[..., np.ndarray]
) -> None:
    picture = pixels(1)
    encode = family(seed=1).latents_encoder("cpu").encode
    first = encode(picture, sample_ids=[1])["latents"]
    assert torch.equal(first, encode(picture, sample_ids=[1])["latents"])
    assert not torch.equal(first, encode(picture, sample_ids=[2])["latents"])
    other = family(seed=2).latents_encoder("cpu").encode(picture, sample_ids=[1])["latents"]
    assert not torch.equal(first, other)


@pytest.mark.parametrize(
    ("precision", "dtype"),
    [("bf16", torch.bfloat16), ("fp16", torch.float16), ("fp32", torch.float32)],
)
def test_rows_have_the_layouts_dtype_and_shape(
    family: Build, pixels: Callable[..., np.ndarray], precision: str, dtype: torch.dtype
) -> None:
    built = family(precision=precision, vae_latent_mode="resample")
    encoder = built.latents_encoder("cpu")
    encoded = encoder.encode(pixels(2, height=96, width=64), sample_ids=[0, 1])
    layout = encoder.row_layout(64, 96)
    assert layout == built.latents_layout(64, 96)
    assert list(encoded) == list(layout)
    for name, (dtype_name, shape) in layout.items():
        assert shape == (16, 12, 8)
        assert getattr(torch, dtype_name) == dtype == encoded[name].dtype
        assert tuple(encoded[name].shape) == (2, *shape)


def test_half_precision_stays_near_float32_and_a_float32_pass_is_nearer(
    family: Build, pixels: Callable[..., np.ndarray], difference: Callable
) -> None:
    batch = pixels(2)
    wanted = family().latents_encoder("cpu").encode(batch, sample_ids=[0, 1])["latents"]
    half = family(precision="bf16").latents_encoder("cpu")
    got = half.encode(batch, sample_ids=[0, 1])["latents"]
    upgraded = half.encode(batch, sample_ids=[0, 1], float32=True)["latents"]
    assert upgraded.dtype == torch.bfloat16
    assert difference(got.float(), wanted) < 0.05
    assert torch.equal(upgraded, wanted.to(torch.bfloat16))


def test_a_saved_row_holds_that_row_only(family: Build, pixels: Callable[..., np.ndarray]) -> None:
    encoded = family(precision="bf16").latents_encoder("cpu").encode(pixels(8), sample_ids=range(8))
    rows = encoded["latents"]
    assert rows.device.type == "cpu"
    assert rows.is_contiguous()
    assert not rows.is_inference()
    file = io.BytesIO()
    torch.save(rows[3].clone(), file)
    assert len(file.getvalue()) < 16 * 8 * 12 * 2 + 2048
    rows[3] += 1


def test_sides_that_leave_odd_latents_are_refused(family: Build) -> None:
    built = family()
    assert built.size_multiple == 16
    for size in ((40, 64), (64, 40), (0, 64), (8, 8)):
        with pytest.raises(SettingError, match="multiples of 16"):
            built.latents_layout(*size)


def test_pixels_of_another_kind_are_refused(
    family: Build, pixels: Callable[..., np.ndarray]
) -> None:
    encoder = family().latents_encoder("cpu")
    with pytest.raises(ValueError, match="uint8"):
        encoder.encode(pixels(1).astype(np.float32), sample_ids=[0])
    with pytest.raises(ValueError, match="1 rows and 2 ids"):
        encoder.encode(pixels(1), sample_ids=[0, 1])


def test_a_vae_without_shift_and_with_other_channels_is_taken_by_its_config(
    family: Build, tmp_path: Path, pixels: Callable[..., np.ndarray], close: Callable
) -> None:
    torch.manual_seed(0)
    model = AutoencoderKL(
        latent_channels=4,
        down_block_types=("DownEncoderBlock2D",) * 2,  # pyright: ignore[reportArgumentType] "Tuple size mismatch"
        up_block_types=("UpDecoderBlock2D",) * 2,  # pyright: ignore[reportArgumentType] "Tuple size mismatch"
        block_out_channels=(8, 8),  # pyright: ignore[reportArgumentType] "Tuple size mismatch"
        norm_num_groups=4,
        scaling_factor=0.5,
    )
    model.save_pretrained(tmp_path / "vae")
    built = family(vae_path=str(tmp_path / "vae"), vae_latent_mode="resample")
    assert built.latent_channels == 4
    assert built.size_multiple == 4
    batch = pixels(1)
    encoded = built.latents_encoder("cpu").encode(batch, sample_ids=[0])
    inputs = torch.tensor(batch).permute(0, 3, 1, 2) / 127.5 - 1
    with torch.no_grad():
        mean = model.encode(inputs).latent_dist.mean  # pyright: ignore[reportAttributeAccessIssue] "latent_dist" is not on "tuple"
    assert close(encoded["latents"], mean * 0.5)


def test_another_class_of_vae_is_refused_by_name(family: Build, copy_of_flux: Path) -> None:
    config = copy_of_flux / "vae" / "config.json"
    config.write_text(config.read_text().replace("AutoencoderKL", "AutoencoderDC"))
    with pytest.raises(ModelError, match="must be an AutoencoderKL, got AutoencoderDC"):
        family(model_path=str(copy_of_flux))
