"""Lines of the list of known cases that no other test covers."""

import io
from typing import TYPE_CHECKING, Any

import pytest
import torch
from diffusers.models.autoencoders.autoencoder_kl import AutoencoderKL
from PIL import Image

from diffprep_assets.validate.dataset import validate_dataset

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import ProjectFolder
    from tests.hub_server import DatasetHub


def test_local_folders_call_no_hub_offline_or_not(
    project: "ProjectFolder", hub: "DatasetHub", monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    project.write_pictures(range(2))
    project.write_recipe()
    assert project.run().written == 2
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    project.write_recipe_over(image={"image_size": 80})
    assert project.run().written == 2
    assert hub.requests == []


def test_an_animation_and_files_of_other_kinds_are_noted_in_the_report(
    project: "ProjectFolder",
) -> None:
    project.write_pictures(range(2))
    frames = [Image.new("RGB", (64, 64), color) for color in ("red", "green", "blue")]
    buffer = io.BytesIO()
    frames[0].save(buffer, "GIF", save_all=True, append_images=frames[1:])
    (project.pictures / "images" / "moving.gif").write_bytes(buffer.getvalue())
    (project.pictures / "captions" / "moving.txt").write_text("moving")
    (project.pictures / "images" / "notes.jpg.md").write_text("no picture")
    project.write_recipe()
    report = project.run()
    assert (report.error, report.written) == (None, 3)
    shown = "\n".join(line for line in report.lines() if isinstance(line, str))
    assert "first of N frames taken 1" in shown
    assert "Other files of the source, not read: .md 1" in shown


def test_a_vae_of_other_channels_leaves_the_old_dataset_until_all_is_done(
    project: "ProjectFolder", tmp_path: "Path"
) -> None:
    project.write_pictures(range(6))
    project.write_recipe()
    assert project.run().ok
    old = sorted(path.name for path in project.layout().output_dir.glob("*.tar"))
    torch.manual_seed(0)
    settings: dict[str, Any] = {
        "down_block_types": ("DownEncoderBlock2D",) * 4,
        "up_block_types": ("UpDecoderBlock2D",) * 4,
        "block_out_channels": (8, 16, 16, 16),
        "latent_channels": 8,
        "norm_num_groups": 4,
        "scaling_factor": 0.5,
        "shift_factor": 0.1,
        "use_quant_conv": False,
        "use_post_quant_conv": False,
    }
    vae = AutoencoderKL(**settings)
    vae.save_pretrained(tmp_path / "vae8")
    project.write_recipe_over(model={"vae_path": str(tmp_path / "vae8")})
    # The text encoders are gone for now: latents are made anew, and nothing is published.
    caption = next((project.pictures / "captions").iterdir())
    text = caption.read_bytes()
    caption.write_text("another caption")
    project.write_recipe_over(model={"clip_path": str(tmp_path / "none")})
    broken = project.run()
    assert not broken.ok
    assert sorted(path.name for path in project.layout().output_dir.glob("*.tar")) == old
    assert validate_dataset(project.layout().output_dir).ok
    caption.write_bytes(text)
    project.write_recipe_over(model={"clip_path": None})
    report = project.run()
    assert report.error is None
    assert report.summaries["encode_latents"].samples.encoded == 6
    assert report.summaries["encode_text"].samples.encoded == 0
    checked = validate_dataset(project.layout().output_dir, full=True)
    assert checked.ok
    new = sorted(path.name for path in project.layout().output_dir.glob("*.tar"))
    assert not set(new) & set(old)
