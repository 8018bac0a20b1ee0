"""A FastVideo dataset, ours or another tool's: what its files' columns and dataset.json say."""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow.parquet as pq

from diffprep_assets.dataset_info.facts import DatasetInfo, validity_of
from diffprep_assets.dataset_info.members import MemberInfo, lengths_of, shown_text
from diffprep_assets.energon_prepare.names import TREES
from diffprep_assets.project import Project
from diffprep_assets.validate.fastvideo_trees import FastVideoTrees, read_trees
from diffprep_resources.errors import DiffprepError
from diffprep_resources.fastvideo.reading import row_values
from diffprep_resources.fastvideo.schema import tensor_names
from diffprep_resources.storage.parquet_tables import DamagedTableError, readable_table

LOADING = """\
from datasets import load_dataset

# FastVideo's trainers take the folder itself: --data_path {folder}
rows = load_dataset("parquet", data_files="{folder}/**/*.parquet", split="train")
"""
NUMBER_BYTES = 8
PLAIN = ("id", "file_name", "caption", "width", "height", "num_frames", "fps", "duration_sec")


def fastvideo_info(path: Path, *, project: Project | None) -> DatasetInfo:
    """What there is to say. Raises DiffprepError where the folder holds no file that can be
    read."""
    trees, check = read_trees(path)
    problems = [str(found) for found in check.failures]
    names = [name for tree in trees.files.values() for name in tree]
    if not names:
        raise DiffprepError(f"{path} holds no dataset that can be read: {'; '.join(problems)}")
    rows, captions = _rows(trees, problems)
    training = [tree for tree in trees.files if tree.endswith(TREES["train"])]
    return DatasetInfo(
        path=path,
        provenance=trees.provenance,
        kind="FastVideo",
        encoding="fastvideo",
        shards=len({trees.shard_of(name) for name in names}),
        samples=sum(rows.values()),
        splits=_splits(trees, rows),
        excluded=0,
        members=tuple(_members(trees, names, rows, problems)),
        captions=lengths_of(captions) if captions else None,
        size_bytes=sum((path / name).stat().st_size for name in names),
        loading=LOADING.format(folder=path / (training or list(trees.files))[0]),
        validity=validity_of(path, project),
        problems=tuple(dict.fromkeys(problems)),
    )


def _rows(trees: FastVideoTrees, problems: list[str]) -> tuple[dict[str, int], list[int]]:
    """Rows by file, and the bytes of each caption."""
    rows: dict[str, int] = {}
    captions: list[int] = []
    for names in trees.files.values():
        for name in names:
            path = trees.path / name
            try:
                with readable_table(path):
                    found = pq.read_table(path, columns=["caption"]).column("caption").to_pylist()
            except DamagedTableError as error:
                problems.append(str(error))
                continue
            rows[name] = len(found)
            captions += [len(caption.encode()) for caption in found if caption is not None]
    return rows, captions


def _splits(trees: FastVideoTrees, rows: Mapping[str, int]) -> dict[str, int]:
    """Rows by split, as the trees' names tell them."""
    counts: Counter[str] = Counter()
    for tree, names in trees.files.items():
        for split, folder in TREES.items():
            if tree.rpartition("/")[2] == folder:
                counts[split] += sum(rows.get(name, 0) for name in names)
    return {split: counts[split] for split in TREES if split in counts}


def _members(
    trees: FastVideoTrees, names: list[str], rows: Mapping[str, int], problems: list[str]
) -> Iterator[MemberInfo]:
    """Every column of the first row that can be read; a tensor's bytes are those of one row."""
    for name in names:
        if not rows.get(name):
            continue
        try:
            values = next(row_values(trees.path / name))
        except (DamagedTableError, StopIteration) as error:
            problems.append(f"{name}: {error}")
            continue
        for tensor in tensor_names(trees.workload):
            data = values.get(f"{tensor}_bytes") or b""
            shape, dtype = tuple(values[f"{tensor}_shape"] or ()), values[f"{tensor}_dtype"]
            content = f"{dtype} {list(shape)}" if data else "empty"
            yield MemberInfo(tensor, content, shape, dtype, 1, len(data))
        for column in PLAIN:
            value = values[column]
            is_text = isinstance(value, str)
            size = len(value.encode()) if is_text else NUMBER_BYTES
            text = shown_text(value) if is_text else str(value)
            yield MemberInfo(column, text, None, None, 1, size)
        return
