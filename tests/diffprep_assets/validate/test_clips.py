"""What validate says of the members of one encoded clip."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch

from diffprep_assets.shard.members import tensor_bytes
from diffprep_assets.shard.tar_writer import TarSample, TarWriter
from diffprep_assets.shard_energon_video.members import ClipMetadata, clip_members
from diffprep_assets.validate.clips import inspect_clip
from diffprep_assets.validate.dataset import validate_dataset
from diffprep_assets.validate.encoding import encoding_of

METADATA = ClipMetadata(
    source_key="videos/a.mp4",
    original_width=640,
    original_height=320,
    original_fps=24.0,
    original_duration=5.0,
    width=64,
    height=32,
    num_frames=17,
    fps=16.0,
    crop_left=0,
    crop_top=0,
    crop_width=640,
    crop_height=320,
    text_length=3,
    clip_digest="d",
    caption_digest="c",
)


def noise(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)).bfloat16()


def text(length: int = 3) -> torch.Tensor:
    padded = torch.zeros(6, 8, dtype=torch.bfloat16)
    padded[:length] = noise(length, 8)
    return padded


def members(**changed: torch.Tensor | None) -> dict[str, bytes]:
    tensors: dict[str, torch.Tensor | None] = {
        "latents": noise(16, 5, 4, 8),
        "prompt_embeds": text(),
        "first_frame_latents": noise(16, 5, 4, 8),
        "clip_feature": noise(3, 4),
        **changed,
    }
    stored = {f"{name}.pth": tensor_bytes(t) for name, t in tensors.items() if t is not None}
    return dict(clip_members(stored, caption="caf\u00e9", metadata=METADATA))


def test_a_sound_clip_has_no_problem() -> None:
    found = inspect_clip(members(), ours=True)
    assert found.problems == ()
    assert found.shape == (16, 5, 4, 8)
    assert list(members()) == [
        *("latents.pth", "prompt_embeds.pth", "first_frame_latents.pth", "clip_feature.pth"),
        *("caption.txt", "json"),
    ]
    without = members(first_frame_latents=None, clip_feature=None)
    assert inspect_clip(without, ours=True).problems == ()


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"latents": noise(16, 4, 8)}, "latents must be a float tensor of 4 dimensions"),
        ({"latents": noise(16, 5, 4, 8) * float("nan")}, "latents holds NaN or infinity"),
        ({"latents": torch.ones(16, 5, 4, 8).bfloat16()}, "latents is 1.0 everywhere"),
        ({"latents": noise(16, 5, 4, 6)}, "json says 64x32 pixels, latents are 6x4"),
        ({"latents": noise(16, 6, 4, 8)}, "json says 17 frames, latents have 6"),
        ({"first_frame_latents": noise(16, 2, 4, 8)}, "differs from latents"),
        ({"prompt_embeds": text(4)}, "prompt_embeds is not zero after its 3 tokens"),
        ({"prompt_embeds": noise(2, 8)}, "json says text_length 3, prompt_embeds has 2 tokens"),
        ({"prompt_embeds": None}, "member prompt_embeds.pth is missing"),
        ({"clip_feature": noise(3)}, "clip_feature must be a float tensor of 2 dimensions"),
    ],
)
def test_what_no_trainer_can_use_is_named(
    changed: dict[str, torch.Tensor | None], problem: str
) -> None:
    found = inspect_clip(members(**changed), ours=True)
    assert any(problem in one for one in found.problems), found.problems


def test_a_tar_of_clips_without_metadata_is_told_by_its_members(tmp_path: Path) -> None:
    with (tmp_path / "000000.tar").open("wb") as file:
        tar = TarWriter(file)
        tar.add(TarSample("0000000000", tuple(members().items())))
        tar.close()
    assert encoding_of(tmp_path) == "preencoded_video"
    report = validate_dataset(tmp_path)
    assert report.ok, report.failures
    assert report.facts["dtypes"][0] == "latents torch.bfloat16"


@pytest.mark.parametrize("key", ["text_length", "num_frames"])
def test_a_json_member_without_a_key_is_found_in_our_datasets(key: str) -> None:
    content: dict[str, Any] = asdict(METADATA)
    del content[key]
    changed = {**members(), "json": json.dumps(content).encode()}
    assert "json must hold exactly" in inspect_clip(changed, ours=True).problems[0]
