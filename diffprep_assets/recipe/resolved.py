"""A recipe with every default filled in, as JSON: what is hashed, recorded and shown."""

import json
from typing import Any

import xxhash

from diffprep_assets.recipe.contradictions import SOURCE_KEYS
from diffprep_assets.recipe.schema import Recipe

# What says how to get at a source, when to run, how long to keep what is aside, when to stop.
NO_BYTES_SECTIONS = frozenset({"auth", "schedule"})
NO_BYTES = frozenset(
    {("source", "keep_downloads"), ("output", "intermediates"), ("output", "max_reject_rate")}
)


def resolved_recipe(recipe: Recipe) -> dict[str, Any]:
    """Every key that applies, with its value; paths as written. It is itself a valid recipe.

    Keys of other source types are left out, and so is a key whose place another one takes
    (`train_split` beside `splits`, `image_keys` beside `image_key`), and of `image` and `video` the
    one that the recipe is not of.
    """
    resolved = recipe.model_dump(mode="json")
    for kind, keys in SOURCE_KEYS.items():
        for key in keys if kind != recipe.source.type else ():
            del resolved["source"][key]
    if recipe.output.splits:
        del resolved["output"]["train_split"]
    if recipe.data_format.image_key:
        del resolved["data_format"]["image_keys"]
    if recipe.data_format.caption_key:
        del resolved["data_format"]["caption_keys"]
    del resolved["video" if recipe.video is None else "image"]
    return resolved


def recipe_hash(resolved: dict[str, Any]) -> str:
    """32 hex digits: xxh3_128 of the resolved recipe's sorted JSON, less what decides no byte."""
    deciding = {
        section: {key: value for key, value in values.items() if (section, key) not in NO_BYTES}
        for section, values in resolved.items()
        if section not in NO_BYTES_SECTIONS
    }
    text = json.dumps(deciding, sort_keys=True, separators=(",", ":"))
    return xxhash.xxh3_128_hexdigest(text.encode())
