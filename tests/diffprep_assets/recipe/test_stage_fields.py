"""Which stages a field of clips makes stale: each reads its own fields and no other."""

from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel

from diffprep_assets.recipe.schema import Recipe
from diffprep_assets.recipe.stage_fields import (
    bucket_fields,
    clip_fields,
    fastvideo_fields,
    first_frame_fields,
    generation_fields,
    latents_fields,
    text_fields,
)
from diffprep_assets.recipe.video import Video, VideoBuckets

MODELS = {"vae": "a", "t5": "b", "clip": "c"}
SIZES = {"bucket", "generation"}
ENCODED = {"encode_latents", "encode_first_frame"}
# By field: a value other than the default, and the stages whose settings it changes.
CHANGED: dict[str, tuple[Any, set[str]]] = {
    "workload": ("i2v", {"shard"}),
    "max_height": (464, SIZES),
    "max_width": (848, SIZES),
    "num_frames": (81, SIZES),
    "train_fps": (24, {"bucket", "shard"}),
    "speed_factor": (2, {"bucket"}),
    "video_length_tolerance_range": (2, {"bucket"}),
    "do_temporal_sample": (True, {"bucket"}),
    "seed": (1, {"bucket"}),
    "samples_per_file": (4, {"shard"}),
    "loader": ("torchcodec", set()),
    "vae_tiling": (True, ENCODED),
    "allow_hdr": (True, {"bucket"}),
    "buckets.sizes": ([[480, 832], [832, 480]], SIZES),
    "buckets.frames": ([17, 77], SIZES),
    "clips_jsonl": (True, set()),
}
# Only their default is allowed.
FIXED = {"drop_short_ratio", "training_cfg_rate"}


def recipe_of(video: dict[str, Any], **sections: dict[str, Any]) -> Recipe:
    content = {
        "source": {"type": "directory", "input_dir": "clips"},
        "output": {"output_dir": "out"},
        "video": video,
    }
    return Recipe.model_validate({**content, **sections})


def settings(recipe: Recipe) -> dict[str, dict[str, Any]]:
    return {
        "bucket": bucket_fields(recipe),
        "generation": generation_fields(recipe),
        "encode_latents": latents_fields(recipe, MODELS),
        "encode_text": text_fields(recipe, MODELS),
        "encode_first_frame": first_frame_fields(recipe, MODELS),
        "encode_clip": clip_fields(MODELS),
        "shard": fastvideo_fields(recipe),
    }


def changed(recipe: Recipe) -> set[str]:
    before, now = settings(recipe_of({})), settings(recipe)
    return {stage for stage in before if before[stage] != now[stage]}


def fields_of(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    for name in model.model_fields:
        if (model, name) == (Video, "buckets"):
            yield from fields_of(VideoBuckets, "buckets.")
        else:
            yield prefix + name


def test_every_field_of_clips_is_tried():
    assert set(fields_of(Video)) == CHANGED.keys() | FIXED


@pytest.mark.parametrize("name", CHANGED)
def test_a_field_of_clips_is_read_by_its_stages_only(name: str):
    value, stages = CHANGED[name]
    section, _, key = name.rpartition(".")
    video = {section: {key: value}} if section else {name: value}
    assert changed(recipe_of(video)) == stages


def test_how_captions_are_cleaned_decides_text_alone():
    assert changed(recipe_of({}, captions={"clean": "none"})) == {"encode_text"}


def test_a_model_decides_the_rows_that_it_makes():
    recipe = recipe_of({})
    other = {**MODELS, "t5": "z"}
    assert text_fields(recipe, other) != text_fields(recipe, MODELS)
    assert latents_fields(recipe, other) == latents_fields(recipe, MODELS)
    assert clip_fields(other) == clip_fields(MODELS)
