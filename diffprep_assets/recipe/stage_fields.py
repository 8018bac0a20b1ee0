"""Which recipe fields each stage reads, by dotted name: what its fingerprint covers, and no more.

Model paths are not here: a model's identity (commit or digest of its files) stands for them. Beside
the fields stands the stage's format version, so that a raised one is told as a changed field is.
"""

from collections.abc import Mapping
from typing import Any

from diffprep_assets.freshness import FORMAT_VERSIONS
from diffprep_assets.recipe.resolved import NO_BYTES, NO_BYTES_SECTIONS
from diffprep_assets.recipe.schema import Recipe

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


# Decide a picture's target from its size alone: the picture need not be opened again.
SIZE_FIELDS = (
    "image.buckets",
    "image.variable_size",
    "image.max_size",
    "image.image_size",
    "image.center_crop",
)


def format_field(stage: str) -> dict[str, Any]:
    """The version of what a stage writes, as a field."""
    return {f"{stage}.format": FORMAT_VERSIONS[stage]}


def size_fields(recipe: Recipe) -> dict[str, Any]:
    """The fields that decide which bucket a picture lies in, of the recipe's mode only."""
    image = recipe.image
    if image.buckets is not None:
        return {"image.buckets": image.buckets.model_dump(mode="json")}
    if image.variable_size:
        return {"image.variable_size": True, "image.max_size": image.max_size}
    return {"image.image_size": image.image_size}


def bucket_fields(recipe: Recipe) -> dict[str, Any]:
    """What `bucket` reads."""
    fields = size_fields(recipe)
    if recipe.image.mode == "image_size":
        fields["image.center_crop"] = recipe.image.center_crop
    return fields | {
        **format_field("bucket"),
        "image.min_side": recipe.image.min_side,
        "image.max_pixels": recipe.image.max_pixels,
        "captions.choose": recipe.captions.choose,
        "captions.lines": recipe.captions.lines,
        "captions.allow_empty": recipe.captions.allow_empty,
        "data_format.image_keys": list(recipe.data_format.image_fields),
        "data_format.caption_keys": list(recipe.data_format.caption_fields),
    }


def generation_fields(recipe: Recipe) -> dict[str, Any]:
    """What deals every sample to a shard anew when it changes."""
    size = recipe.output.shard_size
    sizes = {str(tier): per for tier, per in size.items()} if isinstance(size, dict) else size
    return size_fields(recipe) | {"output.shard_size": sizes}


def plan_fields(recipe: Recipe) -> dict[str, Any]:
    """What `shard_plan` reads."""
    output = recipe.output
    return generation_fields(recipe) | {
        **format_field("shard_plan"),
        "output.shuffle_seed": output.shuffle_seed,
        "output.split_seed": output.split_seed,
        "output.splits": [str(share) for share in output.shares],
    }


def latents_fields(recipe: Recipe, models: Mapping[str, str]) -> dict[str, Any]:
    """What `encode_latents` reads; `models` gives the fingerprint of each encoder by role."""
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
    return {
        **format_field("encode_text"),
        "model.t5": models["t5"],
        "model.clip": models["clip"],
        "model.precision": recipe.model.precision,
        "model.t5_max_length": recipe.model.t5_max_length,
    }


def published_fields(resolved: Mapping[str, Any]) -> dict[str, Any]:
    """What `energon_prepare` writes into dataset.json, less what says only where or when."""
    return format_field("energon_prepare") | {
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
    image = recipe.image
    if image.buckets is not None:
        return image.buckets.tiers
    return (image.max_size if image.variable_size else image.image_size,)
