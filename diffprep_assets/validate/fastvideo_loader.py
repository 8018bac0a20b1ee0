"""One pass through Hugging Face `datasets`, which reads parquet as FastVideo's trainers do not."""

from collections.abc import Mapping

from diffprep_assets.validate.fastvideo_trees import FastVideoTrees
from diffprep_assets.validate.report import Check, Failure

NAME = "loader"


def loader_check(trees: FastVideoTrees, rows: Mapping[str, int], *, full: bool) -> Check:
    """`load_dataset("parquet")` yields as many rows as the files have, with their ids and captions;
    every column with `full`. Nothing is copied into its cache."""
    failures: list[Failure] = []
    read = 0
    for tree, names in trees.files.items():
        readable = [name for name in names if name in rows]
        expected = sum(rows[name] for name in readable)
        if not readable:
            continue
        try:
            found = _count(trees, readable, full=full)
        except Exception as error:  # whatever `datasets` raises is what its user would see
            failures.append(
                Failure(f"{tree or '.'}: `datasets` fails: {type(error).__name__} {error}")
            )
            continue
        read += found
        if found != expected:
            failures.append(
                Failure(f"{tree or '.'}: `datasets` yields {found} rows, the files hold {expected}")
            )
    return Check(NAME, f"`datasets` read {read:,} rows", tuple(failures))


def _count(trees: FastVideoTrees, names: list[str], *, full: bool) -> int:
    from datasets import load_dataset

    columns = None if full else ["id", "caption", "num_frames"]
    rows = load_dataset(
        "parquet",
        data_files={"train": [str(trees.path / name) for name in names]},
        split="train",
        streaming=True,
        columns=columns,
    )
    return sum(isinstance(row["id"], str) and isinstance(row["caption"], str) for row in rows)
