"""Keys of a valid recipe that do nothing as it stands; said, never refused.

Files of other tools carry them (`image_size` beside `variable_size: true`).
"""

from diffprep_assets.recipe.schema import Image, Recipe

_IDLE_SIZES = {
    "image_size": (("max_size",), "every picture becomes a square of image.image_size"),
    "variable_size": (("image_size",), "image.max_size decides with image.variable_size"),
    "buckets": (("image_size", "max_size"), "image.buckets.tiers decides with image.buckets"),
}


def without_effect(recipe: Recipe, *, local_dataset: bool) -> tuple[str, ...]:
    """One sentence for each key that was changed from its default to no effect."""
    image = recipe.image
    keys, reason = _IDLE_SIZES[image.mode]
    notes = [
        f"image.{key} has no effect: {reason}"
        for key in keys
        if getattr(image, key) != Image.model_fields[key].default
    ]
    if local_dataset and recipe.source.hf_revision:
        notes.append("source.hf_revision has no effect: source.hf_dataset is a local folder")
    return tuple(notes)
