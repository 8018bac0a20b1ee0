"""Keys of a valid recipe that do nothing as it stands; said, never refused.

Files of other tools carry them (`image_size` beside `variable_size: true`).
"""

from collections.abc import Iterator

from diffprep_assets.recipe.output import Mds
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
    return (*notes, *_of_formats(recipe), *_of_curation(recipe), *_of_video(recipe))


def _of_video(recipe: Recipe) -> Iterator[str]:
    if recipe.video is not None and recipe.video.loader != "pyav":
        yield f"video.loader {recipe.video.loader}: PyAV decodes, which gives the same frames"
    if recipe.video is None and recipe.captions.clean != "none":
        yield "captions.clean has no effect: FLUX's pipelines encode a caption as it is"


def _of_formats(recipe: Recipe) -> Iterator[str]:
    output, formats = recipe.output, recipe.output.formats
    stored = "raw" in formats or "mds" in formats
    if not stored and (output.image_format != "jpg" or output.image_quality is not None):
        yield "output.image_format and image_quality have no effect: no format stores pictures"
    elif output.image_format == "png" and output.image_quality is not None:
        yield "output.image_quality has no effect: png is without loss"
    if "mds" not in formats and recipe.mds != Mds():
        yield "mds has no effect: output.formats does not list mds"
    if output.layout == "per_bucket" and formats == ("mds",):
        yield "output.layout has no effect: an MDS dataset has a folder for each bucket anyway"
    elif output.layout == "per_bucket" and recipe.image.mode == "image_size":
        yield "output.layout has no effect: with image.image_size there is one bucket"


def _of_curation(recipe: Recipe) -> Iterator[str]:
    dedup = recipe.curate.dedup
    if dedup and dedup.method == "digest" and "max_distance" in dedup.model_fields_set:
        yield "curate.dedup.max_distance has no effect: equal files have nothing that differs"
