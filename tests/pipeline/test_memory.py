"""No stage holds a list of the dataset: it runs in far less memory than its pictures and rows."""

import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from diffusers.models.autoencoders.autoencoder_kl import AutoencoderKL
from PIL import Image
from transformers import T5Config, T5EncoderModel

from diffprep_assets.run_report import STAGES

if TYPE_CHECKING:
    from tests.conftest import ProjectFolder

MIB = 1 << 20
BUDGET = 44 * MIB
NUM_PICTURES, SIDE, TOKENS, T5_WIDTH = 320, 256, 512, 256
# Of one sample: pixels as they are encoded, and the float32 rows of latents and text.
PIXEL_BYTES = SIDE * SIDE * 3
LATENTS_BYTES = 16 * (SIDE // 4) ** 2 * 4
TEXT_BYTES = TOKENS * T5_WIDTH * 4


@pytest.fixture
def wide_encoders(tiny_encoders: Path, tmp_path: Path) -> Path:
    """Encoders that write much and compute little."""
    folder = Path(shutil.copytree(tiny_encoders, tmp_path / "wide"))
    # As a dict: diffusers annotates the tuples as of length one.
    values: dict[str, Any] = {
        "latent_channels": 16,
        "down_block_types": ("DownEncoderBlock2D",) * 3,
        "up_block_types": ("UpDecoderBlock2D",) * 3,
        "block_out_channels": (4, 4, 4),
        "norm_num_groups": 2,
        "mid_block_add_attention": False,
    }
    vae = AutoencoderKL(**values)
    vae.save_pretrained(folder / "vae")
    config = T5Config.from_pretrained(folder / "text_encoder_2")
    config.update({"d_model": T5_WIDTH, "d_kv": 8, "d_ff": 16, "num_layers": 1, "num_heads": 1})
    T5EncoderModel(config).save_pretrained(folder / "text_encoder_2")
    return folder


def write_many(folder: Path, count: int) -> int:
    """Bytes of one picture of `count` that are alike; no two captions are."""
    folder.mkdir()
    buffer = io.BytesIO()
    Image.linear_gradient("L").resize((260, 260)).convert("RGB").save(buffer, "BMP")
    for number in range(count):
        (folder / f"{number:04d}.bmp").write_bytes(buffer.getvalue())
        (folder / f"{number:04d}.txt").write_text(f"caption {number}")
    return len(buffer.getvalue())


@pytest.mark.long
def test_a_dataset_several_times_the_memory_goes_through(
    project: "ProjectFolder", wide_encoders: Path
):
    assert min(PIXEL_BYTES, LATENTS_BYTES, TEXT_BYTES) * NUM_PICTURES > 1.3 * BUDGET
    assert (LATENTS_BYTES + TEXT_BYTES) * NUM_PICTURES > 4 * BUDGET
    # Everything in the one process that is watched.
    settings = project.folder / "dagster_project.toml"
    settings.write_text(settings.read_text() + "cpu_workers = 1\n")
    for name, count in (("warm", 12), ("many", NUM_PICTURES)):
        assert write_many(project.folder / name, count) > PIXEL_BYTES
        project.write_recipe(
            name,
            source={"type": "directory", "input_dir": name},
            output={"shard_size": 1000},
            model={"model_path": str(wide_encoders), "t5_max_length": TOKENS, "batch_size": 2},
            image={"image_size": SIDE},
        )
    script = Path(__file__).with_name("measured_run.py")
    done = subprocess.run(
        [sys.executable, script, project.folder],
        # One heap for all threads, so that what one freed is there for the others.
        env={**os.environ, "MALLOC_ARENA_MAX": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    measured = json.loads(done.stdout.splitlines()[-1])
    assert measured["report"]["error"] is None
    assert measured["report"]["dataset"] == "many"
    assert measured["report"]["written"] == NUM_PICTURES
    assert measured["grown"].keys() >= set(STAGES)
    assert {stage: by for stage, by in measured["grown"].items() if by > BUDGET} == {}
