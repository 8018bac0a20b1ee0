"""README.md of a published dataset: what it is, how much of it, how to load it."""

from collections.abc import Mapping
from typing import Any

import yaml

from diffprep_assets.recipe.folders import is_remote
from diffprep_assets.shard.truncation import truncations_of_json

MARKER = "<!-- diffprep writes this file anew; remove this line to keep your own text -->"
HUB_SIZES = (
    (1_000, "n<1K"),
    (10_000, "1K<n<10K"),
    (100_000, "10K<n<100K"),
    (1_000_000, "100K<n<1M"),
    (10_000_000, "1M<n<10M"),
    (100_000_000, "10M<n<100M"),
)
LOADING = """\
```python
from megatron.energon import WorkerConfig, get_loader, get_train_dataset
from diffprep_resources.trainers.energon import PreencodedTaskEncoder

workers = WorkerConfig(rank=0, world_size=1, num_workers=0)
dataset = get_train_dataset(
    "{folder}",
    batch_size=4,
    shuffle_buffer_size=1000,
    max_samples_per_sequence=100,
    worker_config=workers,
    task_encoder=PreencodedTaskEncoder(),
)
loader = get_loader(dataset)
```
"""


def card(content: Mapping[str, Any], *, pictures: str | None = None) -> bytes:
    """The card for dataset.json's content. The first line after the Hub's front matter marks it.

    `pictures` is the file beside it that shows some samples.
    """
    counts = content["counts"]
    parts = [
        _front_matter(content),
        MARKER,
        f"# {content['dataset']}",
        _summary(content),
        *([f"![some of the pictures, as they were encoded]({pictures})"] if pictures else []),
        "## Load it",
        LOADING.format(folder=f"path/to/{content['dataset']}").strip(),
        "Each batch holds `latents`, `prompt_embeds`, `pooled_prompt_embeds` (and `mean`, `logvar` "
        "in resample mode) as stacked tensors of one shape, with `captions` and `metadata`.",
        "## Samples",
        _table(("split", "samples"), [(k, f"{v:,}") for k, v in counts["splits"].items()]),
        "## Buckets",
        _bucket_table(counts["buckets"]),
        "## Left out",
        _rejects(counts),
        "## Captions cut short",
        _truncated(counts),
        "## Made from",
        _source(content),
        "## Made with",
        _models(content["models"]),
        f"Latents are `{content['latents']['scaling_factor']:g} * (z - "
        f"{content['latents']['shift_factor']:g})`, z being what the VAE gives for RGB pixels in "
        "[-1, 1].",
        f"{_versions(content['versions'])}. Recipe hash `{content['recipe_hash']}`; dataset.json "
        "has the whole recipe and a digest of every shard.",
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
        "task_categories": ["text-to-image"],
        "size_categories": [size],
        "tags": ["diffprep", "megatron-energon", "webdataset", "precomputed-latents"],
        **({"source_datasets": [on_hub]} if on_hub else {}),
    }
    return f"---\n{yaml.dump(matter, sort_keys=False, allow_unicode=True)}---"


def _summary(content: Mapping[str, Any]) -> str:
    counts = content["counts"]
    return (
        f"{counts['written']:,} captioned pictures, encoded once for training a diffusion model: "
        f"VAE latents and text embeddings in {counts['shards']:,} WebDataset shards "
        f"({counts['size_bytes'] / 1e6:,.1f} MB), indexed for Megatron-Energon. "
        f"Made by diffprep {content['versions'].get('diffprep', '')}".rstrip()
        + "."
    )


def _bucket_table(buckets: list[dict[str, Any]]) -> str:
    columns = ("tier", "size", "shards", "samples", "train", "val", "test")
    return _table(
        columns,
        [
            (
                str(bucket["tier"]),
                f"{bucket['width']}x{bucket['height']}",
                *(f"{bucket[name]:,}" for name in columns[2:]),
            )
            for bucket in buckets
        ],
    )


def _rejects(counts: Mapping[str, Any]) -> str:
    if not counts["rejected"]:
        return f"Nothing: all {counts['listed']:,} samples of the source are here."
    text = f"{counts['rejected']:,} of the source's {counts['listed']:,} samples, by reason:"
    rows = sorted(counts["rejects"].items(), key=lambda item: (-item[1], item[0]))
    return text + "\n\n" + _table(("reason", "samples"), [(code, f"{n:,}") for code, n in rows])


def _truncated(counts: Mapping[str, Any]) -> str:
    """A line per text encoder that cuts captions."""
    cut = [item for item in truncations_of_json(counts["truncated"]) if item.truncated]
    if not cut:
        return "None: every caption fits the text encoders."
    lines = [f"- {item.sentence}." for item in cut]
    return "\n".join([*lines, "", "`caption.txt` holds every caption whole."])


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
        }.get(kind, "A local folder of pictures and captions")
    return f"{text}, at revision `{revision}`." if revision else f"{text}."


def _versions(versions: Mapping[str, str]) -> str:
    names = ("diffprep", "diffusers", "torch", "transformers")
    return "Made with " + ", ".join(f"{n} {versions[n]}" for n in names if n in versions)


def _models(models: Mapping[str, Mapping[str, Any]]) -> str:
    rows = [(role, *_files(model["weights"])) for role, model in sorted(models.items())]
    return _table(("encoder", "from", "commit or digest"), rows)


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


def _table(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [columns, tuple("---" for _ in columns), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
