"""What a FastVideo dataset's card says of its readers: what a training run reads, and who can."""

from collections.abc import Mapping
from typing import Any

from diffprep_assets.energon_prepare.card_readers import table

TRAINING = """\
A training run reads one tree: clips of one size and one length. Give FastVideo its folder:

```
--data_path path/to/{name}/{tree} \\
{validation}--train_batch_size 1 --num_latent_t {latent_frames} --num_height {height} \\
--num_width {width} --num_frames {num_frames}
```"""
LOADING = """\
```python
from datasets import load_dataset

rows = load_dataset("parquet", data_files="path/to/{name}/{tree}/**/*.parquet", split="train")
```"""
BATCHES = (
    "FastVideo's loaders drop the last, incomplete batch of a tree: a tree with fewer rows than "
    "one batch over all ranks gives none. `validation_dataset` and `test_dataset` are trees of the "
    "same kind, which its trainers do not read; they take `validation.json`, the first samples of "
    "split val{pictures}."
)
CACHES = (
    "A trainer leaves a list of the files in `map_style_cache`, which each publication that "
    "changes a tree removes, unread."
)
ROWS = (
    "Each row holds `vae_latent` [C, t, h, w], `text_embedding` [L, D] cut at its own "
    "tokens{more}, as float32 bytes with `_shape` and `_dtype`, beside `id`, `file_name`, "
    "`caption`, `width`, `height`, `num_frames`, `fps` and `duration_sec` of the encoded clip."
)
I2V_ROWS = (
    ", `first_frame_latent` [C, t, h, w] normalised, `clip_feature` (empty where the model has no "
    "image encoder) and the first frame, `pil_image` [3, H, W] from 0 to 255"
)
READERS = (
    (
        "FastVideo's trainers for this workload",
        "a tree at a time; give them the folder of one",
        "honoured: the rows are not there",
    ),
    ("pyarrow, Hugging Face `datasets`", "all files", "honoured: the rows are not there"),
)
SKIPS = (
    "FastVideo has no list of rows to leave out. A skipped sample's row is left out of the files "
    "that are published: its shard, a folder `worker_<number>`, gets a new name, "
    "`worker_<number>-<rewrite>`. Nothing is encoded for that, nor when the skip is taken back."
)


def load_it(content: Mapping[str, Any]) -> str:
    """The section: a trainer's flags, the trees, what a row holds."""
    fastvideo = content["fastvideo"]
    i2v = fastvideo["workload"] == "i2v"
    tree, facts = _first_training(fastvideo["trees"])
    folder = tree.rpartition("/")[0]
    has_val = any(
        other["split"] == "val" and name.rpartition("/")[0] == folder
        for name, other in fastvideo["trees"].items()
    )
    json_file = f"path/to/{content['dataset']}/{folder}/validation.json".replace("//", "/")
    training = TRAINING.format(
        name=content["dataset"],
        tree=tree,
        validation=f"--validation_dataset_file {json_file} \\\n" if has_val else "",
        latent_frames=(facts["num_frames"] - 1) // 4 + 1,
        **{key: facts[key] for key in ("width", "height", "num_frames")},
    )
    return "\n\n".join(
        [
            training,
            _trees(fastvideo["trees"]),
            BATCHES.format(pictures=" with their first frames" if i2v else ""),
            CACHES,
            ROWS.format(more=I2V_ROWS if i2v else ""),
            LOADING.format(name=content["dataset"], tree=tree),
        ]
    )


def readers(content: Mapping[str, Any]) -> str:
    """The section: a row per reader, then how skips reach them."""
    now = f"Now {content['counts']['skipped']:,} samples are skipped."
    return f"{table(('reader', 'reads', 'skips'), READERS)}\n\n{SKIPS} {now}"


def _first_training(trees: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """The largest training tree."""
    training = [(name, tree) for name, tree in trees.items() if tree["split"] == "train"]
    return max(training, key=lambda item: (item[1]["samples"], item[0]))


def _trees(trees: Mapping[str, Any]) -> str:
    rows = [
        (
            f"`{name}`",
            tree["split"],
            f"{tree['width']}x{tree['height']}",
            str(tree["num_frames"]),
            f"{tree['samples']:,}",
        )
        for name, tree in sorted(trees.items())
    ]
    return table(("tree", "split", "size", "frames", "rows served"), rows)
