"""Keys of a recipe that cannot stand together, each valid on its own.

The rules look at what was written, not at defaults, and take any value that they do not understand
for valid: its own check speaks of it.
"""

from collections.abc import Iterator, Mapping

from diffprep_assets.recipe.bucket_checks import same_folders
from diffprep_assets.recipe.mds_columns import unfit_names
from diffprep_assets.recipe.problems import Problem, nearest

# The first key of each is required.
SOURCE_KEYS: dict[str, tuple[str, ...]] = {
    "directory": ("input_dir",),
    "huggingface": ("hf_dataset", "hf_name", "hf_split", "hf_revision", "hf_data_files"),
    "webdataset": ("input_path",),
}
CLIP_FORMATS = ("fastvideo", "energon_video")
Written = Mapping[str, object]


def without_empty(written: Written) -> dict[str, object]:
    """What was written, less nulls and empty texts, which count as not written."""
    return {
        key: without_empty(value) if isinstance(value, Mapping) else value
        for key, value in written.items()
        if value is not None and value != ""
    }


def contradictions(written: Written) -> list[Problem]:
    """Every contradiction among the sections as written (nested mappings, empties left out)."""
    return [
        *_source(_section(written, "source")),
        *_data_format(_section(written, "data_format")),
        *_splits(_section(written, "output")),
        *_image(_section(written, "image")),
        *_shard_sizes(_section(written, "output"), _section(written, "image")),
        *_shapes(_section(written, "output"), _section(_section(written, "image"), "buckets")),
        *_mds(written),
        *_medium(written),
        *_video(_section(written, "video")),
    ]


def _section(written: Written, name: str) -> Written:
    section = written.get(name)
    return section if isinstance(section, Mapping) else {}


def _source(source: Written) -> Iterator[Problem]:
    kind = source.get("type")
    if not isinstance(kind, str) or kind not in SOURCE_KEYS:
        return
    required = SOURCE_KEYS[kind][0]
    if required not in source:
        yield Problem(("source", required), f"is required with source.type {kind}")
    for other, keys in SOURCE_KEYS.items():
        for key in keys if other != kind else ():
            if key in source:
                yield Problem(
                    ("source", key),
                    f"belongs to source.type {other}, but source.type is {kind}; remove one",
                    (("source", "type"),),
                )


def _data_format(data_format: Written) -> Iterator[Problem]:
    for one, several in (("image_key", "image_keys"), ("caption_key", "caption_keys")):
        if one in data_format and several in data_format:
            yield _both("data_format", one, several, "the one field, or the list of fields to try")


def _splits(output: Written) -> Iterator[Problem]:
    if "train_split" in output and "splits" in output:
        yield _both("output", "train_split", "splits", "both say how much is for training")


def _image(image: Written) -> Iterator[Problem]:
    variable = image.get("variable_size") is True
    if variable and "buckets" in image:
        yield _both("image", "variable_size", "buckets", "two ways to choose a picture's size")
    if image.get("center_crop") is not True:
        return
    if "buckets" in image:
        yield _both("image", "center_crop", "buckets", "buckets always crop to their shape")
    elif variable:
        yield _both("image", "center_crop", "variable_size", "variable_size crops nothing")


def _shard_sizes(output: Written, image: Written) -> Iterator[Problem]:
    sizes = output.get("shard_size")
    if not isinstance(sizes, Mapping):
        return
    where = ("output", "shard_size")
    buckets = image.get("buckets")
    if "buckets" not in image:
        yield Problem(where, "for each tier needs image.buckets; without buckets write one number")
        return
    tiers = buckets.get("tiers", (512, 1024)) if isinstance(buckets, Mapping) else None
    if not isinstance(tiers, list | tuple):
        return
    known = {str(tier) for tier in tiers}
    given = {str(tier) for tier in sizes}
    for tier in sorted(given - known):
        near = nearest(tier, known)
        hint = f"; did you mean {near}?" if near else ""
        yield Problem(
            where,
            f"names tier {tier}, but image.buckets.tiers is {', '.join(map(str, tiers))}{hint}",
            (("image", "buckets", "tiers"),),
        )
    for tier in sorted(known - given):
        yield Problem(where, f"has no size for tier {tier} of image.buckets.tiers")


def _mds(written: Written) -> Iterator[Problem]:
    formats = _section(written, "output").get("formats")
    if formats != "mds" and not (isinstance(formats, list | tuple) and "mds" in formats):
        return
    mode = _section(written, "model").get("vae_latent_mode")
    if _section(written, "mds").get("latents") is True and mode != "resample":
        yield Problem(
            ("mds", "latents"),
            "needs model.vae_latent_mode: resample, since MDS holds the posterior's mean and std, "
            "not one draw",
            (("model", "vae_latent_mode"),),
        )
    for name, reason in unfit_names(_section(_section(written, "mds"), "caption_columns")):
        yield Problem(("mds", "caption_columns", name), f"{reason}; rename the field in the source")


def _shapes(output: Written, buckets: Written) -> Iterator[Problem]:
    if "shapes" not in buckets:
        return
    where = ("image", "buckets", "shapes")
    if "patch" in buckets:
        patch = ("image", "buckets", "patch")
        why = "a table of shapes is made of no patches; remove one"
        yield Problem(where, f"contradicts image.buckets.patch: {why}", (patch,))
    formats = output.get("formats")
    if formats == "mds" or (isinstance(formats, list | tuple) and "mds" in formats):
        for message in same_folders(buckets["shapes"], buckets.get("tiers", (512, 1024))):
            yield Problem(where, message, (("output", "formats"),))


def _medium(written: Written) -> Iterator[Problem]:
    """What is of clips in a recipe of pictures, and the other way round."""
    formats = _section(written, "output").get("formats")
    is_video = isinstance(written.get("video"), Mapping)
    for name in formats if isinstance(formats, list | tuple) else ():
        if isinstance(name, str) and (name in CLIP_FORMATS) != is_video:
            why = "is for pictures" if is_video else "is for clips: add a section video"
            yield Problem(("output", "formats"), f"lists {name}, which {why}")
    if not is_video:
        return
    if "image" in written:
        yield Problem(("image",), "is for pictures; with a section video, that gives the sizes")
    if _section(written, "model").get("precision", "fp32") != "fp32":
        why = "must be fp32 with a section video: trainers of clips read float32"
        yield Problem(("model", "precision"), why)
    curate = _section(written, "curate")
    if "dedup" in curate and _section(curate, "dedup").get("method", "phash") == "phash":
        why = "must be digest with a section video: phash compares pictures"
        yield Problem(("curate", "dedup", "method"), why)


def _video(video: Written) -> Iterator[Problem]:
    if str(video.get("drop_short_ratio", 1)) not in ("1", "1.0"):
        why = "must be 1: a clip that has too few frames is a reject, and none of them is used"
        yield Problem(("video", "drop_short_ratio"), why)
    if video.get("training_cfg_rate"):
        why = "must be 0: the trainer drops captions itself; here they would be lost for good"
        yield Problem(("video", "training_cfg_rate"), why)
    buckets = _section(video, "buckets")
    for key, other in (("sizes", "max_width"), ("sizes", "max_height"), ("frames", "num_frames")):
        if key in buckets and other in video:
            yield _both("video", other, f"buckets.{key}", "one value, or a table")


def _both(section: str, first: str, second: str, why: str) -> Problem:
    return Problem(
        (section, first),
        f"contradicts {section}.{second}: {why}; remove one",
        ((section, second),),
    )
