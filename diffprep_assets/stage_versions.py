"""What Dagster takes for a stage's code version: the format of its files and its settings.

When either changes, Dagster shows the stage as stale before anything has run. All that a version
covers is part of the stage's fingerprint too, but for the models: their paths stand for them here,
since telling their identity may need the Hub. Where only a path changed, the next run records the
same files again under the new version.
"""

from collections.abc import Callable
from typing import Any

from diffprep_assets.freshness import FORMAT_VERSIONS, digest_of
from diffprep_assets.recipe.formats import PREPARE_STAGE
from diffprep_assets.recipe.load import LoadedRecipe
from diffprep_assets.recipe.schema import Recipe
from diffprep_assets.recipe.stage_fields import (
    bucket_fields,
    columns_fields,
    curate_fields,
    hash_fields,
    latents_fields,
    mds_fields,
    plan_fields,
    published_fields,
    raw_fields,
    text_fields,
)

# Settings that the recipe alone tells.
OF_RECIPE: dict[str, Callable[[Recipe], dict[str, Any]]] = {
    "bucket": bucket_fields,
    "source_columns": columns_fields,
    "picture_hash": hash_fields,
    "curate": curate_fields,
    "shard_plan": plan_fields,
    "shard_raw": raw_fields,
    "shard_mds": mds_fields,
}


def code_version(stage: str, loaded: LoadedRecipe) -> str:
    """`1`, or `1-<8 hex digits>` where the stage has settings."""
    settings = _settings(stage, loaded)
    version = FORMAT_VERSIONS[stage]
    return f"{version}-{digest_of(settings)[:8]}" if settings else version


def _settings(stage: str, loaded: LoadedRecipe) -> dict[str, Any]:
    recipe, resolved = loaded.recipe, loaded.resolved
    model = recipe.model
    models = {
        "vae": model.vae_path or model.model_path,
        "t5": model.t5_path or model.model_path,
        "clip": model.clip_path or model.model_path,
    }
    if stage == "source_index":
        source = recipe.source.model_dump(mode="json", exclude={"keep_downloads"})
        return {"source": source, "output.max_samples": recipe.output.max_samples}
    if stage == "encode_latents":
        return latents_fields(recipe, models)
    if stage == "encode_text":
        return text_fields(recipe, models)
    if stage in OF_RECIPE:
        return OF_RECIPE[stage](recipe)
    for format, prepare in PREPARE_STAGE.items():
        if stage == prepare:
            return published_fields(resolved, format=format)
    return {}
