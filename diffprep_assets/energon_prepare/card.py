"""README.md of a published dataset: what it is, how much of it, how to load it."""

from collections.abc import Mapping
from typing import Any

import yaml

from diffprep_assets.energon_prepare import card_readers
from diffprep_assets.energon_prepare.card_readers import table
from diffprep_assets.fastvideo_prepare import card_readers as fastvideo_readers
from diffprep_assets.mds_prepare import card_readers as mds_readers
from diffprep_assets.recipe.folders import is_remote
from diffprep_assets.shard.truncation import truncations_of_json
from diffprep_assets.shard_plan.plan import sized

TAGS = {
    "preencoded": ("megatron-energon", "webdataset", "precomputed-latents"),
    "preencoded_video": ("megatron-energon", "webdataset", "precomputed-latents"),
    "fastvideo": ("fastvideo", "precomputed-latents"),
    "raw": ("megatron-energon", "webdataset"),
    "mds": ("mosaicml-streaming", "mds"),
}
SHARDS = {
    "preencoded": ("WebDataset shards", "indexed for Megatron-Energon"),
    "preencoded_video": ("WebDataset shards", "indexed for Megatron-Energon"),
    "fastvideo": ("shards of parquet files", "a tree for each bucket and split"),
    "raw": ("WebDataset shards", "indexed for Megatron-Energon"),
    "mds": ("MDS shards", "a folder for each split and bucket"),
}
WHAT = {
    "preencoded": "captioned pictures, encoded once for training a diffusion model: VAE latents "
    "and text embeddings in",
    "preencoded_video": "captioned clips, encoded once for training a video diffusion model: VAE "
    "latents and text embeddings in",
    "fastvideo": "captioned clips, encoded once for training a video diffusion model with "
    "FastVideo: VAE latents and text embeddings in",
    "raw": "captioned pictures, cut to their buckets' sizes for training a diffusion model, in",
    "mds": "captioned pictures, cut to their buckets' sizes for training a diffusion model, in",
}
# Whose card says otherwise how it is loaded.
READERS = {"mds": mds_readers, "fastvideo": fastvideo_readers}
MARKER = "<!-- diffprep writes this file anew; remove this line to keep your own text -->"
HUB_SIZES = (
    (1_000, "n<1K"),
    (10_000, "1K<n<10K"),
    (100_000, "10K<n<100K"),
    (1_000_000, "100K<n<1M"),
    (10_000_000, "1M<n<10M"),
    (100_000_000, "10M<n<100M"),
)


def card(content: Mapping[str, Any], *, pictures: str | None = None) -> bytes:
    """The card for dataset.json's content. The first line after the Hub's front matter marks it.

    `pictures` is the file beside it that shows some samples.
    """
    counts = content["counts"]
    sections = READERS.get(content["encoding"], card_readers)
    parts = [
        _front_matter(content),
        MARKER,
        f"# {content['dataset']}",
        _summary(content),
        *_shown(content, pictures),
        "## Load it",
        sections.load_it(content),
        "## Who can read it",
        sections.readers(content),
        "## Samples",
        _samples(counts),
        table(("split", "samples"), [(k, f"{v:,}") for k, v in counts["splits"].items()]),
        "## Buckets",
        _bucket_table(counts["buckets"]),
        "## Left out",
        _rejects(counts),
        "## Skipped",
        _skipped(content),
        *_truncated(content),
        "## Made from",
        _source(content),
        "## Made with",
        *_made_with(content),
        *_others(content["other_outputs"]),
    ]
    return ("\n\n".join(parts) + "\n").encode()


def _front_matter(content: Mapping[str, Any]) -> str:
    written = content["counts"]["written"]
    size = next((name for limit, name in HUB_SIZES if written < limit), "100M<n<1B")
    output = content["recipe"].get("output", {})
    on_hub = _hub_dataset(content)
    matter = {
        "pretty_name": content["dataset"],
        **({"license": output["license"]} if output.get("license") else {}),
        "task_categories": [_task(content)],
        "size_categories": [size],
        "tags": ["diffprep", *_encoded(content, TAGS)],
        **({"source_datasets": [on_hub]} if on_hub else {}),
    }
    return f"---\n{yaml.dump(matter, sort_keys=False, allow_unicode=True)}---"


def _summary(content: Mapping[str, Any]) -> str:
    counts = content["counts"]
    shards, how = _encoded(content, SHARDS)
    return (
        f"{counts['written']:,} {_encoded(content, WHAT)} {counts['shards']:,} {shards} "
        f"({counts['size_bytes'] / 1e6:,.1f} MB), {how}. "
        f"Made by diffprep {content['versions'].get('diffprep', '')}".rstrip()
        + "."
    )


def _video(content: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The recipe's section of clips."""
    return content["recipe"].get("video")


def _shown(content: Mapping[str, Any], pictures: str | None) -> list[str]:
    if pictures is None:
        return []
    return [f"![some of the {_noun(content)}, as they were encoded]({pictures})"]


def _noun(content: Mapping[str, Any]) -> str:
    return "pictures" if _video(content) is None else "clips"


def _task(content: Mapping[str, Any]) -> str:
    """The Hub's word for what the dataset is for."""
    video = _video(content)
    if video is None:
        return "text-to-image"
    return "image-to-video" if video.get("workload") == "i2v" else "text-to-video"


def _encoded(content: Mapping[str, Any], words: Mapping[str, Any]) -> Any:
    return words[content["encoding"]]


def _samples(counts: Mapping[str, Any]) -> str:
    return (
        f"{counts['listed']:,} listed in the source = {counts['written']:,} written + "
        f"{counts['rejected']:,} left out. {counts['served']:,} served to a trainer = "
        f"{counts['written']:,} written - {counts['skipped']:,} skipped."
    )


def _bucket_table(buckets: list[dict[str, Any]]) -> str:
    columns = ("tier", "size", "shards", "samples", "train", "val", "test")
    return table(
        columns,
        [
            (
                str(bucket["tier"]),
                sized(bucket["width"], bucket["height"], bucket.get("num_frames", 0)),
                *(f"{bucket[name]:,}" for name in columns[2:]),
            )
            for bucket in buckets
        ],
    )


def _rejects(counts: Mapping[str, Any]) -> str:
    if not counts["rejected"]:
        return f"Nothing: all {counts['listed']:,} samples of the source are here."
    text = f"{counts['rejected']:,} of the source's {counts['listed']:,} samples, by reason:"
    return f"{text}\n\n{_counted('reason', counts['rejects'])}"


def _skipped(content: Mapping[str, Any]) -> str:
    """How many, by rule, and what that does to a data loader."""
    counts = content["counts"]
    if not counts["skipped"]:
        return "Nothing."
    parts = [
        f"{counts['skipped']:,} of the {counts['written']:,} written samples are not served, by "
        f"rule:",
        _counted("rule", counts["skips"]),
        *(f"Mind: {warning}." for warning in content["warnings"]),
    ]
    return "\n\n".join(parts)


def _counted(name: str, counts: Mapping[str, int]) -> str:
    rows = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return table((name, "samples"), [(code, f"{n:,}") for code, n in rows])


def _truncated(content: Mapping[str, Any]) -> list[str]:
    """A line per text encoder that cuts captions; nothing where none is."""
    found = truncations_of_json(content["counts"]["truncated"])
    if not found:
        return []
    cut = [f"- {item.sentence}." for item in found if item.truncated]
    if not cut:
        return ["## Captions cut short", "None: every caption fits the text encoders."]
    member = "`caption`" if content["encoding"] == "fastvideo" else "`caption.txt`"
    whole = f"{member} holds every caption whole."
    return ["## Captions cut short", "\n".join([*cut, "", whole])]


def _made_with(content: Mapping[str, Any]) -> list[str]:
    parts = []
    if content["models"]:
        parts.append(_models(content["models"]))
    if latents := content.get("latents"):
        parts.append(_latents(content["encoding"], latents))
    parts.append(
        f"{_versions(content['versions'])}. Recipe hash `{content['recipe_hash']}`; dataset.json "
        "has the whole recipe and a digest of every shard."
    )
    return parts


def _latents(encoding: str, latents: Mapping[str, float]) -> str:
    if "std" in latents:
        return _video_latents(encoding)
    scaled = f"`{latents['scaling_factor']:g} * (z - {latents['shift_factor']:g})`"
    pixels = "RGB pixels in [-1, 1]"
    if encoding == "mds":
        return (
            f"`img_latent` holds mean and std that the VAE gives for {pixels}, unscaled: a "
            f"trainer draws z of them and scales it, {scaled}."
        )
    return f"Latents are {scaled}, z being what the VAE gives for {pixels}."


def _video_latents(encoding: str) -> str:
    stored = (
        "as it is: a trainer normalises it"
        if encoding == "fastvideo"
        else "normalised, which is what a model sees of it"
    )
    return (
        f"Latents are the mean that the VAE gives for RGB pixels in [-1, 1], {stored}: `(mean - m) "
        "/ s` by channel, with `latents.mean` and `latents.std` of dataset.json."
    )


def _others(others: list[dict[str, Any]]) -> list[str]:
    """The dataset's outputs in other formats, if there are any."""
    if not others:
        return []
    lines = [
        f"- [{other['format']}]({other['place']}): "
        + ("the same samples" if other["is_kept_up"] else "the recipe lists it no more; as it was")
        for other in others
    ]
    return ["## Other formats", "\n".join(lines)]


def _source(content: Mapping[str, Any]) -> str:
    """What the pictures came from; of a local folder only its kind, since its path tells nobody."""
    source, revision = content["recipe"].get("source", {}), content["source"]["revision"]
    kind = source.get("type")
    place = source.get("hf_dataset") or source.get("input_dir") or source.get("input_path") or ""
    if on_hub := _hub_dataset(content):
        text = f"The dataset {_hub_link(on_hub, datasets=True)} on the Hugging Face Hub, split "
        text += f"`{source.get('hf_split')}`"
    elif is_remote(place):
        text = f"`{place}`"
    else:
        text = {
            "webdataset": "Local WebDataset tars",
            "huggingface": "A local folder laid out like a dataset of the Hub",
        }.get(kind, f"A local folder of {_noun(content)} and captions")
    return f"{text}, at revision `{revision}`." if revision else f"{text}."


def _versions(versions: Mapping[str, str]) -> str:
    names = ("diffprep", "diffusers", "torch", "transformers")
    return "Made with " + ", ".join(f"{n} {versions[n]}" for n in names if n in versions)


def _models(models: Mapping[str, Mapping[str, Any]]) -> str:
    rows = [(role, *_files(model["weights"])) for role, model in sorted(models.items())]
    return table(("encoder", "from", "commit or digest"), rows)


def _files(files: Mapping[str, Any]) -> tuple[str, str]:
    place = "/".join(part for part in (files["reference"], files["subfolder"]) if part)
    shown = f"`{place}`"
    if files["kind"] == "hub":
        shown = _hub_link(files["reference"], datasets=False)
        shown += f", `{files['subfolder']}`" if files["subfolder"] else ""
    return shown, f"`{files['revision']}`"


def _hub_dataset(content: Mapping[str, Any]) -> str | None:
    """The name of the source on the Hub; a local folder, which may read like one, has no commit."""
    name = content["recipe"].get("source", {}).get("hf_dataset")
    return name if name and content["source"]["revision"] else None


def _hub_link(name: str, *, datasets: bool) -> str:
    return f"[{name}](https://huggingface.co/{'datasets/' if datasets else ''}{name})"
