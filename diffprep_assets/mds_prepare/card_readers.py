"""What an MDS dataset's card says of its readers: how to load it, columns, who can do what."""

from collections.abc import Mapping
from typing import Any

from diffprep_assets.energon_prepare.card_readers import table

# Samples of one step over all ranks: a folder that serves fewer gives no batch.
GLOBAL_BATCH = 256
SHOWN_FOLDERS = 20
LOADING = """\
```python
from pathlib import Path

from streaming import Stream, StreamingDataset
from diffprep_resources.trainers.streaming import SkipLists{register}


class Dataset(SkipLists, StreamingDataset):
    pass


{call}root = Path("path/to/{name}")
indexes = [path for place in {local} for path in sorted((root / place).glob("*/index.json"))]
dataset = Dataset(
    streams=[Stream(local=str(path.parent)) for path in indexes],
    batch_size=8,
    batching_method="per_stream",
    shuffle=True,
)
```"""
PER_STREAM = (
    "Each `<split>/<tier>/<width / height>` folder is a stream of pictures of one size, so "
    "`per_stream` batches stack. mosaicml-streaming 0.13 and numpy below 2.2 go into the trainer's "
    "own environment; `diffprep_resources/trainers/streaming.py` needs numpy alone and runs there."
)
SKIPS = (
    "Skip lists lie beside the shards, `<shard>.skip.<rule>.json`, and count when a dataset is "
    "made anew. Our mixin takes skipped samples out before batches are formed."
)
READERS = (
    (
        "mosaicml-streaming with `diffprep_resources.trainers.streaming.SkipLists` before its "
        "dataset",
        "all of it, in batches of one size",
        "honoured",
    ),
    (
        "PRX with the same mixin before its `StreamingProcessedDataset`",
        "all of it; `local:` as below",
        "honoured",
    ),
    (
        "PRX and mosaicml-streaming as they come",
        "all of it",
        "ignored: they serve skipped samples too, but for folders with nothing else",
    ),
)


def load_it(content: Mapping[str, Any]) -> str:
    """The section: the statements, PRX's settings, and which folders fill no batch."""
    mds = content["mds"]
    bf16 = "bf16" in mds["columns"].values()
    train = mds["local"].get("train", [])
    parts = [
        LOADING.format(
            register=", register_bf16" if bf16 else "",
            call="register_bf16()\n" if bf16 else "",
            name=content["dataset"],
            local=train,
        ),
        PER_STREAM,
        f"For PRX, `local:` lists the tiers' folders, and `caption_keys:` the captions with their "
        f"weights:\n\n{_prx_settings(content)}",
        "### Columns",
        table(("column", "encoding"), sorted(mds["columns"].items())),
        "### Folders",
        _folders(content),
    ]
    return "\n\n".join(parts)


def readers(content: Mapping[str, Any]) -> str:
    """The section: a row per reader, then what to know of skips."""
    now = f"Now {content['counts']['skipped']:,} samples are skipped."
    return f"{table(('reader', 'reads', 'skips'), READERS)}\n\n{SKIPS} {now}"


def _prx_settings(content: Mapping[str, Any]) -> str:
    mds, name = content["mds"], content["dataset"]
    lines = ["```yaml", "local:"]
    lines += [f"- path/to/{name}/{place}" for place in mds["local"].get("train", [])]
    lines.append("caption_keys:")
    lines += [f"- [{key}, {weight:g}]" for key, weight in mds["caption_weights"].items()]
    return "\n".join([*lines, "```"])


def _folders(content: Mapping[str, Any]) -> str:
    """What each folder serves, the small ones by name: the library drops or refuses them."""
    served: dict[str, int] = {}
    for shard in content["shards"]:
        folder = shard["name"].rpartition("/")[0]
        count = shard["num_samples"] - shard["num_skipped"]
        served[folder] = served.get(folder, 0) + count
    small = sorted((count, name) for name, count in served.items() if count < GLOBAL_BATCH)
    text = (
        f"{len(served):,} folders. With `per_stream` the last, incomplete batch of a folder is "
        f"dropped, and a folder that fills none stops the library (PRX's `device_per_stream` "
        f"passes it by): leave such folders out, or take a smaller batch."
    )
    if not small:
        return f"{text} Every folder serves at least {GLOBAL_BATCH} samples."
    rows = [(name, f"{count:,}") for count, name in small[:SHOWN_FOLDERS]]
    more = f"\n\nand {len(small) - SHOWN_FOLDERS:,} more" if len(small) > SHOWN_FOLDERS else ""
    return (
        f"{text} Below a global batch of {GLOBAL_BATCH} samples:\n\n"
        f"{table(('folder', 'samples served'), rows)}{more}"
    )
