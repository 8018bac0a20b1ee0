"""docs/video.md has every flag of FastVideo's guide (August 2026), and the command takes it."""

import re
from pathlib import Path
from typing import Any

import typer

from diffprep_assets.cli import app
from diffprep_assets.recipe.schema import Recipe
from diffprep_assets.recipe.video import Video
from diffprep_assets.video_flags import VIDEO_KEYS
from diffprep_resources.errors import REJECT_CODES

PAGE = (Path(__file__).parents[2] / "docs" / "video.md").read_text("utf-8")

FLAGS = [
    *("--model_path", "--mode", "--workload_type"),
    *(
        f"--preprocess.{name}"
        for name in (
            *("video_loader_type", "dataset_type", "dataset_path", "dataset_output_dir"),
            *("preprocess_video_batch_size", "dataloader_num_workers", "max_height", "max_width"),
            *("num_frames", "train_fps", "samples_per_file", "flush_frequency"),
            *("video_length_tolerance_range", "speed_factor", "drop_short_ratio"),
            *("do_temporal_sample", "training_cfg_rate", "seed"),
        )
    ),
]
OTHER_WORDS = [
    *("videos2caption.json", "videos.txt", "prompt.txt", "prepare_json_file.py", "video-index"),
    *("training_dataset/worker_", "vae_latent", "text_embedding", "clip_feature"),
    *("first_frame_latent", "download_hf.py", "torchrun"),
]


def test_every_flag_has_its_row():
    lines = [line for line in PAGE.splitlines() if line.startswith("| ")]
    cells = "\n".join(re.split(r" \| ", line)[0] for line in lines)
    assert [flag for flag in FLAGS if f"`{flag}`" not in cells] == []


def test_every_flag_is_an_option_of_our_command():
    known: Any = typer.main.get_command(app)
    options = {name for p in known.commands["video-encoded"].params for name in p.opts}
    assert [flag for flag in FLAGS if flag not in options] == []


def test_every_flag_with_a_key_names_one_that_a_recipe_has():
    for key in VIDEO_KEYS.values():
        section, name = key.split(".")
        if section == "video":
            assert name in Video.model_fields
        elif (section, name) not in {("model", "batch_size"), ("model", "device")}:
            annotation: Any = Recipe.model_fields[section].annotation
            assert name in annotation.model_fields, key


def test_what_else_the_guide_speaks_of_is_on_the_page():
    assert [word for word in OTHER_WORDS if word not in PAGE] == []


def test_every_reject_of_a_clip_is_on_the_page():
    codes = [code for code in REJECT_CODES if "video" in code]
    assert codes
    assert [code for code in codes if f"`{code}`" not in PAGE] == []
