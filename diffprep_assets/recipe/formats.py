"""Which output formats a recipe asks for, and the stages that they and curation need."""

from collections.abc import Sequence
from typing import Literal

from diffprep_assets.recipe.schema import Recipe

Format = Literal["energon", "raw", "mds", "fastvideo", "energon_video"]
# `shard` makes the main form of the medium: no recipe has both energon and fastvideo.
SHARD_STAGE: dict[Format, str] = {
    "energon": "shard",
    "raw": "shard_raw",
    "mds": "shard_mds",
    "fastvideo": "shard",
    "energon_video": "shard_energon_video",
}
PREPARE_STAGE: dict[Format, str] = {
    "energon": "energon_prepare",
    "raw": "raw_prepare",
    "mds": "mds_prepare",
    "fastvideo": "fastvideo_prepare",
    "energon_video": "energon_video_prepare",
}
ENCODE_STAGES = ("encode_latents", "encode_text", "encode_first_frame", "encode_clip")
OF_CLIPS: tuple[Format, ...] = ("fastvideo", "energon_video")
# Quality of stored pictures where the recipe names none: those of Primus's guide and of PRX.
DEFAULT_QUALITY: dict[Format, int] = {"raw": 95, "mds": 92}


def first_format(recipe: Recipe) -> Format:
    """The format that lies in output_dir itself."""
    return recipe.output.formats[0]


def main_format(formats: Sequence[Format]) -> Format | None:
    """Of these formats the one whose finished shards hold all rows that were encoded, so that row
    files may go; None where none does."""
    return next((name for name in formats if SHARD_STAGE[name] == "shard"), None)


def has_several_buckets(recipe: Recipe) -> bool:
    """Whether samples may be of several sizes or lengths, so that each has a folder of its own."""
    if recipe.video is not None:
        return len(recipe.video.sizes) * len(recipe.video.frame_counts) > 1
    return recipe.image.mode != "image_size"


def needs_latents(recipe: Recipe) -> bool:
    """Whether a format holds what the VAE makes."""
    formats = recipe.output.formats
    return bool(recipe.video) or "energon" in formats or ("mds" in formats and recipe.mds.latents)


def needs_text(recipe: Recipe) -> bool:
    """Whether a format holds what the text encoders make."""
    formats = recipe.output.formats
    own = "mds" in formats and recipe.mds.text_latents
    return bool(recipe.video) or "energon" in formats or own


def needs_columns(recipe: Recipe) -> bool:
    """Whether fields of the source are read besides pictures and captions."""
    curate = recipe.curate
    extra = recipe.mds.caption_columns if "mds" in recipe.output.formats else None
    return bool(curate.filters.where or curate.group_key or extra)


def needs_hashes(recipe: Recipe) -> bool:
    """Whether pictures are compared by how they look."""
    dedup = recipe.curate.dedup
    return dedup is not None and dedup.method == "phash"


def image_quality(recipe: Recipe, format: Format) -> int:
    """Quality of the stored jpg and webp of `raw` or `mds`."""
    return recipe.output.image_quality or DEFAULT_QUALITY[format]


def part_stages(recipe: Recipe) -> tuple[str, ...]:
    """The stages that are partitioned by parts, in flow order."""
    wanted = {"source_columns": needs_columns(recipe), "picture_hash": needs_hashes(recipe)}
    return ("download", "bucket", *(stage for stage, asked in wanted.items() if asked))


def encode_stages(recipe: Recipe) -> tuple[str, ...]:
    """The stages that encode, in flow order."""
    of_first_frame = recipe.video is not None and recipe.video.workload == "i2v"
    wanted = {
        "encode_latents": needs_latents(recipe),
        "encode_text": needs_text(recipe),
        "encode_first_frame": of_first_frame,
        "encode_clip": of_first_frame,
    }
    return tuple(stage for stage, asked in wanted.items() if asked)


def shard_stages(recipe: Recipe) -> tuple[str, ...]:
    """The stages that are partitioned by shards, in flow order."""
    formats = recipe.output.formats
    shards = (stage for name, stage in SHARD_STAGE.items() if name in formats)
    return (*encode_stages(recipe), *shards)


def prepare_stages(recipe: Recipe) -> tuple[str, ...]:
    """The stages that publish, one for each format, in flow order."""
    formats = recipe.output.formats
    return tuple(stage for name, stage in PREPARE_STAGE.items() if name in formats)


def stages_of(recipe: Recipe) -> tuple[str, ...]:
    """Every stage that the recipe has, in flow order."""
    return (
        "source_index",
        *part_stages(recipe),
        "curate",
        "shard_plan",
        *shard_stages(recipe),
        *prepare_stages(recipe),
        "validate",
    )
