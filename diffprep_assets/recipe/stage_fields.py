"""Which recipe fields each stage reads, by dotted name: what its fingerprint covers, and no more.

Model paths are not here: a model's identity (commit or digest of its files) stands for them. Beside
the fields stands the stage's format version, so that a raised one is told as a changed field is.
"""

import json
from collections.abc import Mapping
from typing import Any

from diffprep_assets.freshness import FORMAT_VERSIONS
from diffprep_assets.recipe.formats import PREPARE_STAGE, Format, image_quality
from diffprep_assets.recipe.resolved import NO_BYTES, NO_BYTES_SECTIONS
from diffprep_assets.recipe.schema import Buckets, Recipe
from diffprep_assets.recipe.video import Video
from diffprep_assets.source_columns.wanted import wanted_columns

# Say where things are; none of the bytes.
PLACES = (
    ("source", "input_dir"),
    ("source", "input_path"),
    ("source", "hf_dataset"),
    ("output", "output_dir"),
    ("model", "model_path"),
    ("model", "vae_path"),
    ("model", "t5_path"),
    ("model", "clip_path"),
)


# Decide a target from what the bucket table holds: the picture or clip need not be opened again.
SIZE_FIELDS = (
    "image.buckets",
    "image.variable_size",
    "image.max_size",
    "image.image_size",
    "image.center_crop",
    "video.sizes",
    "video.frames",
)


def format_field(stage: str) -> dict[str, Any]:
    """The version of what a stage writes, as a field."""
    return {f"{stage}.format": FORMAT_VERSIONS[stage]}


def bucket_settings(buckets: Buckets) -> dict[str, Any]:
    """The settings of `buckets` mode; those that came later only where they are not the default,
    so that they make nothing stale."""
    settings = buckets.model_dump(mode="json")
    later = {"patch": 16, "shapes": None}
    return {key: value for key, value in settings.items() if later.get(key, ...) != value}


def _video_sizes(video: Video) -> dict[str, Any]:
    return {
        "video.sizes": [list(size) for size in video.sizes],
        "video.frames": list(video.frame_counts),
    }


def size_fields(recipe: Recipe) -> dict[str, Any]:
    """The fields that decide which bucket a picture or clip lies in, of the recipe's mode only."""
    if recipe.video is not None:
        return _video_sizes(recipe.video)
    image = recipe.image
    if image.buckets is not None:
        return {"image.buckets": bucket_settings(image.buckets)}
    if image.variable_size:
        return {"image.variable_size": True, "image.max_size": image.max_size}
    return {"image.image_size": image.image_size}


def bucket_fields(recipe: Recipe) -> dict[str, Any]:
    """What `bucket` reads."""
    fields = size_fields(recipe)
    if recipe.video is not None:
        names = (
            *("train_fps", "speed_factor", "video_length_tolerance_range", "do_temporal_sample"),
            *("seed", "allow_hdr"),
        )
        settings = recipe.video.model_dump(mode="json", include=set(names))
        fields |= {f"video.{name}": settings[name] for name in names}
    else:
        if recipe.image.mode == "image_size":
            fields["image.center_crop"] = recipe.image.center_crop
        fields["image.min_side"] = recipe.image.min_side
        fields["image.max_pixels"] = recipe.image.max_pixels
    return fields | {
        **format_field("bucket"),
        "captions.choose": recipe.captions.choose,
        "captions.lines": recipe.captions.lines,
        "captions.allow_empty": recipe.captions.allow_empty,
        "data_format.image_keys": list(recipe.data_format.image_fields),
        "data_format.caption_keys": list(recipe.data_format.caption_fields),
    }


def columns_fields(recipe: Recipe) -> dict[str, Any]:
    """What `source_columns` reads: names only, whatever the recipe asks of them."""
    return {**format_field("source_columns"), "columns": list(wanted_columns(recipe))}


def hash_fields(recipe: Recipe) -> dict[str, Any]:
    """What `picture_hash` reads."""
    return {**format_field("picture_hash"), "image.background": recipe.image.background.lower()}


def curate_fields(recipe: Recipe) -> dict[str, Any]:
    """What `curate` reads; what skip lists hold counts too, where they lie does not."""
    settings = recipe.curate.model_dump(mode="json", exclude={"skip_lists"})
    asked = {key: value for key, value in settings.items() if value is not None}
    asked["filters"] = {key: v for key, v in settings["filters"].items() if v is not None}
    return {**format_field("curate"), "curate": asked}


def generation_fields(recipe: Recipe) -> dict[str, Any]:
    """What deals every sample to a shard anew when it changes."""
    size = recipe.output.shard_size
    sizes = {str(tier): per for tier, per in size.items()} if isinstance(size, dict) else size
    return size_fields(recipe) | {"output.shard_size": sizes}


# What decides how splits are dealt; a change moves nothing that is in a split but with
# output.resplit.
SPLIT_FIELDS = ("output.splits", "output.split_seed", "curate.group_key")


def split_key(fields: Mapping[str, Any]) -> str:
    """The fields that decide how splits are dealt, as one text; null those that are not given."""
    return json.dumps({name: fields.get(name) for name in SPLIT_FIELDS}, sort_keys=True)


def plan_fields(recipe: Recipe) -> dict[str, Any]:
    """What `shard_plan` reads; what came later only where it is asked for, so that it makes no
    older plan stale."""
    output = recipe.output
    columns = recipe.mds.caption_columns if "mds" in output.formats else None
    later = {
        "output.resplit": output.resplit,
        "curate.group_key": recipe.curate.group_key,
        "mds.caption_columns": sorted(columns or {}),
    }
    return generation_fields(recipe) | {
        **format_field("shard_plan"),
        "output.shuffle_seed": output.shuffle_seed,
        "output.split_seed": output.split_seed,
        "output.splits": [str(share) for share in output.shares],
        **{name: value for name, value in later.items() if value},
    }


def latents_fields(recipe: Recipe, models: Mapping[str, str]) -> dict[str, Any]:
    """What `encode_latents` reads; `models` gives the fingerprint of each encoder by role."""
    if recipe.video is not None:
        return format_field("encode_latents") | _video_vae(recipe.video, models)
    fields: dict[str, Any] = {
        **format_field("encode_latents"),
        "model.vae": models["vae"],
        "model.precision": recipe.model.precision,
        "model.vae_latent_mode": recipe.model.vae_latent_mode,
        "image.background": recipe.image.background.lower(),
    }
    if recipe.model.vae_latent_mode == "presampled":
        fields["model.seed"] = recipe.model.seed
    return fields


def text_fields(recipe: Recipe, models: Mapping[str, str]) -> dict[str, Any]:
    """What `encode_text` reads; `models` gives the fingerprint of each encoder by role."""
    if recipe.video is not None:
        return {
            **format_field("encode_text"),
            "model.t5": models["t5"],
            "model.t5_max_length": recipe.model.t5_max_length,
            "captions.clean": recipe.captions.clean,
        }
    return {
        **format_field("encode_text"),
        "model.t5": models["t5"],
        "model.clip": models["clip"],
        "model.precision": recipe.model.precision,
        "model.t5_max_length": recipe.model.t5_max_length,
    }


def _video_vae(video: Video, models: Mapping[str, str]) -> dict[str, Any]:
    return {"model.vae": models["vae"], "video.vae_tiling": video.vae_tiling}


def first_frame_fields(recipe: Recipe, models: Mapping[str, str]) -> dict[str, Any]:
    """What `encode_first_frame` reads."""
    assert recipe.video is not None
    return format_field("encode_first_frame") | _video_vae(recipe.video, models)


def clip_fields(models: Mapping[str, str]) -> dict[str, Any]:
    """What `encode_clip` reads; a model without an image encoder has no role `clip`."""
    return {**format_field("encode_clip"), "model.clip": models.get("clip")}


def fastvideo_fields(recipe: Recipe) -> dict[str, Any]:
    """What the stage of FastVideo's parquet reads."""
    assert recipe.video is not None
    return {
        **format_field("shard"),
        "video.workload": recipe.video.workload,
        "video.train_fps": str(recipe.video.train_fps),
        "video.samples_per_file": recipe.video.samples_per_file,
    }


def energon_video_fields(recipe: Recipe) -> dict[str, Any]:
    """What the stage of Energon's clips reads."""
    assert recipe.video is not None
    return {
        **format_field("shard_energon_video"),
        "video.train_fps": str(recipe.video.train_fps),
    }


def _stored_fields(recipe: Recipe, format: Format) -> dict[str, Any]:
    """What decides the bytes of a stored picture."""
    fields: dict[str, Any] = {
        "image.background": recipe.image.background.lower(),
        "output.image_format": recipe.output.image_format,
    }
    if recipe.output.image_format != "png":
        fields["output.image_quality"] = image_quality(recipe, format)
    return fields


def raw_fields(recipe: Recipe) -> dict[str, Any]:
    """What `shard_raw` reads."""
    return format_field("shard_raw") | _stored_fields(recipe, "raw")


def mds_fields(recipe: Recipe) -> dict[str, Any]:
    """What `shard_mds` reads. Weights of caption columns are the trainer's."""
    return format_field("shard_mds") | {
        **_stored_fields(recipe, "mds"),
        "mds.latents": recipe.mds.latents,
        "mds.text_latents": recipe.mds.text_latents,
        "mds.caption_columns": sorted(recipe.mds.caption_columns or {}),
    }


def published_fields(resolved: Mapping[str, Any], *, format: Format = "energon") -> dict[str, Any]:
    """What a format's prepare stage writes into dataset.json, less what says only where or when."""
    return format_field(PREPARE_STAGE[format]) | {
        f"{section}.{key}": value
        for section, values in resolved.items()
        if section not in NO_BYTES_SECTIONS
        for key, value in values.items()
        if (section, key) not in PLACES and (section, key) not in NO_BYTES
    }


def shard_sizes(recipe: Recipe) -> dict[str, int]:
    """Samples in a shard by tier; JSON keys."""
    return {str(tier): recipe.output.shard_size_of(tier) for tier in tiers(recipe)}


def tiers(recipe: Recipe) -> tuple[int, ...]:
    """The resolution tiers, in pixels; the one target size outside `buckets` mode."""
    if recipe.video is not None:
        return tuple(sorted({min(size) for size in recipe.video.sizes}))
    image = recipe.image
    if image.buckets is not None:
        return image.buckets.tiers
    return (image.max_size if image.variable_size else image.image_size,)
