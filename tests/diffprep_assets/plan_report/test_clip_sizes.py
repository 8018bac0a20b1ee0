"""Bytes of clips are foretold from the encoders' configs alone."""

import math
from pathlib import Path

import numpy as np
import pytest

from diffprep_assets.plan_report.clip_sizes import ClipSizes
from diffprep_assets.plan_report.sizes import TextBytes
from diffprep_assets.recipe.schema import Recipe
from diffprep_assets.shard_plan.plan import Bucket, PlannedShard
from diffprep_resources.demo.wan import build_tiny_wan
from diffprep_resources.encoders.base import ClipEncoderFamily, EncoderSettings
from diffprep_resources.encoders.families import clip_family, family_for
from diffprep_resources.fastvideo.rows import FastVideoRow, write_rows
from diffprep_resources.fastvideo.shapes import tensor_shapes
from diffprep_resources.hub.models import ModelHub

TOKENS = 20
SHARD = PlannedShard("a", Bucket(64, 128, 64, 17), 0, "train", 3, "", "", "")


@pytest.fixture(scope="module")
def family(tmp_path_factory: pytest.TempPathFactory) -> ClipEncoderFamily:
    folder = tmp_path_factory.mktemp("wan") / "wan"
    build_tiny_wan(folder, workload="i2v")
    settings = EncoderSettings(str(folder), precision="fp32", t5_max_length=64, workload="i2v")
    return clip_family(family_for(settings, hub=ModelHub(base_folder=folder)))


@pytest.fixture
def sizes(family: ClipEncoderFamily) -> ClipSizes:
    recipe = Recipe.model_validate(
        {
            "source": {"type": "directory", "input_dir": "c"},
            "output": {"output_dir": "o", "formats": ["fastvideo", "energon_video"]},
            "video": {"workload": "i2v"},
        }
    )
    return ClipSizes(recipe, family, TextBytes(plain=90), 3, {}, tokens=TOKENS)


def test_a_fastvideo_shard_is_as_large_as_its_rows(
    sizes: ClipSizes, family: ClipEncoderFamily, tmp_path: Path
):
    shapes = tensor_shapes(family, width=128, height=64, num_frames=17, workload="i2v")
    shapes = {**shapes, "text_embedding": (TOKENS, (shapes["text_embedding"] or (0, 0))[1])}
    random = np.random.default_rng(0)
    tensors = {
        name: None if shape is None else random.standard_normal(shape, np.float32)
        for name, shape in shapes.items()
    }
    row = FastVideoRow("0", "0.mp4", "c" * 30, 128, 64, 17, 16.0, tensors)
    write_rows(tmp_path / "a.parquet", [row] * 3, workload="i2v")
    written = (tmp_path / "a.parquet").stat().st_size
    assert sizes.shard(SHARD, format="fastvideo") == pytest.approx(written, rel=0.15)


def test_row_files_take_what_the_encoders_layouts_say(sizes: ClipSizes, family: ClipEncoderFamily):
    rows = sizes.rows(SHARD)
    assert list(rows) == ["encode_latents", "encode_text", "encode_first_frame", "encode_clip"]
    latents = 4 * math.prod(family.latents_layout(128, 64, num_frames=17)["latents"][1])
    assert rows["encode_latents"] == pytest.approx(3 * latents, rel=0.05, abs=2000)
    frame = latents + 4 * 3 * 128 * 64
    assert rows["encode_first_frame"] == pytest.approx(3 * frame, rel=0.05)
    # A caption's padding is a hole in the file.
    assert rows["encode_text"] < 3 * 64 * 4 * family.text_layout()["prompt_embeds"][1][1] + 2000


def test_an_energon_shard_holds_the_numbers_in_two_bytes_each(
    sizes: ClipSizes, family: ClipEncoderFamily
):
    tar = sizes.shard(SHARD, format="energon_video")
    assert tar % 10_240 == 0
    latents = 2 * math.prod(family.latents_layout(128, 64, num_frames=17)["latents"][1])
    assert tar > 3 * 2 * latents
