"""What a published dataset's card says of its readers: how to load it, and who can do what."""

from collections.abc import Mapping, Sequence
from typing import Any

ENCODERS = {
    "preencoded": "PreencodedTaskEncoder",
    "preencoded_video": "PreencodedVideoTaskEncoder",
    "raw": "RawTaskEncoder",
}
LOADING = """\
```python
from megatron.energon import WorkerConfig, get_loader, get_train_dataset
from diffprep_resources.trainers.energon import {encoder}

workers = WorkerConfig(rank=0, world_size=1, num_workers=0)
dataset = get_train_dataset(
    "{folder}",
    batch_size=4,
    shuffle_buffer_size=1000,
    max_samples_per_sequence=100,
    worker_config=workers,
    task_encoder={encoder}(),
)
loader = get_loader(dataset)
```
"""
BATCHES = {
    "preencoded": "Each batch holds `latents`, `prompt_embeds`, `pooled_prompt_embeds` (and "
    "`mean`, `logvar` in resample mode) as stacked tensors of one shape, with `captions` and "
    "`metadata`.",
    "preencoded_video": "Each batch holds `latents` [B, C, T, h, w], `prompt_embeds` [B, L, D] and "
    "`text_mask` [B, L], true where there is a token, as stacked tensors of one shape, with "
    "`captions` and `metadata`; for image-to-video also `first_frame_latents` [B, C, T, h, w] and, "
    "where the model has an image encoder, `clip_feature`.",
    "raw": "Each batch holds `images` [B, 3, H, W], uint8 and of one size, with `captions` and "
    "`metadata`.",
}
SKIPS = (
    "Skips take effect when a data loader starts anew; a loader state saved before them may not "
    "restore. Energon's own counts, lengths and shares of shards still include skipped samples."
)


def loading(encoding: str, folder: str) -> str:
    """The statements that load a dataset of that encoding."""
    return LOADING.format(encoder=ENCODERS[encoding], folder=folder)


def load_it(content: Mapping[str, Any]) -> str:
    """The section: the statements, what a batch holds, and which folders load by themselves."""
    encoding, folder = content["encoding"], f"path/to/{content['dataset']}"
    parts = [BATCHES[encoding]]
    if is_per_bucket(content):
        folder += "/metadataset.yaml"
        parts.append(
            "`metadataset.yaml` blends the buckets by what each serves. Each bucket's folder is a "
            f"dataset of its own, too: give `path/to/{content['dataset']}/{_buckets(content)[0]}` "
            "instead."
        )
    return "\n\n".join([loading(encoding, folder).strip(), *parts])


def readers(content: Mapping[str, Any]) -> str:
    """The section: a row per reader, then what to know of skips."""
    rows = _READERS[content["encoding"]]
    several = len(_buckets(content)) > 1
    stock = _STOCK_PRIMUS[(several, is_per_bucket(content))]
    filled = [(reader, words.format(stock=stock), skips) for reader, words, skips in rows]
    return f"{table(('reader', 'reads', 'skips'), filled)}\n\n{SKIPS}"


def is_per_bucket(content: Mapping[str, Any]) -> bool:
    """Whether the buckets' folders are datasets; without such folders the whole is one."""
    return content["layout"] == "per_bucket" and bool(_buckets(content)[0])


def table(columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """A Markdown table."""
    lines = [columns, tuple("---" for _ in columns), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _buckets(content: Mapping[str, Any]) -> list[str]:
    """The folders that shards lie in."""
    return sorted({shard["name"].rpartition("/")[0] for shard in content["shards"]})


_STOCK_PRIMUS = {
    (False, False): "all of it: it has one size",
    (False, True): "all of it: give it the bucket's folder, or metadataset.yaml",
    (True, False): "not as it is: it stacks batches of mixed sizes, which energon drops without a "
    "word; make it with `output.layout: per_bucket`, or use the row above",
    (True, True): "one bucket's folder at a time; through metadataset.yaml it mixes sizes",
}
_WEBDATASET = (
    "webdataset, Hugging Face `datasets`",
    "the tars by themselves, all sizes",
    "ignored: they serve skipped samples too",
)
_PREENCODED = (
    (
        "energon with `diffprep_resources.trainers.energon.PreencodedTaskEncoder`",
        "all of it, in batches of one size",
        "honoured",
    ),
    (
        "Primus with `diffprep_resources.trainers.primus.GroupedByShape` before its encoder",
        "all of it, in batches of one size",
        "honoured",
    ),
    ("Primus as it comes (`EncodedDiffusionTaskEncoder`)", "{stock}", "honoured"),
    _WEBDATASET,
)
_RAW = (
    (
        "energon with `diffprep_resources.trainers.energon.RawTaskEncoder`",
        "all of it, in batches of one size",
        "honoured",
    ),
    (
        "Primus as it comes (`RawDiffusionTaskEncoder`)",
        "captions only: it looks for a member `images`, which no writer makes",
        "honoured",
    ),
    _WEBDATASET,
)
_VIDEO = (
    (
        "energon with `diffprep_resources.trainers.energon.PreencodedVideoTaskEncoder`",
        "all of it, in batches of one size and length",
        "honoured",
    ),
    ("FastVideo", "nothing here: it reads the parquet of format `fastvideo`", "-"),
    _WEBDATASET,
)
_READERS = {"preencoded": _PREENCODED, "preencoded_video": _VIDEO, "raw": _RAW}
