"""One dataset in a line of `diffprep list`: its state, its size, and when it was made."""

import json
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from diffprep_assets.dataset import Dataset
from diffprep_assets.dataset_state import DatasetState, FilesToLookAt, StateName, dataset_state
from diffprep_assets.energon_prepare.provenance import read_provenance
from diffprep_assets.layout import Layout
from diffprep_assets.recipe.formats import SHARD_STAGE
from diffprep_assets.shard_plan.plan import PlannedShard
from diffprep_assets.shard_plan.table import read_shards

NO_RECIPE = "the project has no recipe of this name; `diffprep clean` removes what is left"


@dataclass(frozen=True, slots=True)
class DatasetSummary:
    """`why` says what is not fresh. Counts are of what was published, else of the plan, else None;
    `formats` are those that are published, the bytes and `output_dir` are of all of them.
    `work_bytes` are those that the output does not share; `made` is local time."""

    dataset: str
    state: StateName
    why: tuple[str, ...] = ()
    samples: int | None = None
    shards: int | None = None
    output_bytes: int = 0
    work_bytes: int = 0
    made: str | None = None
    recipe: str | None = None
    output_dir: str | None = None
    formats: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The object that `list --json` holds for the dataset."""
        return {**asdict(self), "why": list(self.why), "formats": list(self.formats)}


def summary_of_dataset(dataset: Dataset, looks: FilesToLookAt) -> DatasetSummary:
    """The line of a dataset that has a recipe."""
    shards = read_shards(dataset.layout.shards)
    state = dataset_state(dataset, shards, looks)
    return _summary(dataset.layout, state, shards, recipe=dataset.loaded.path)


def summary_without_recipe(layout: Layout) -> DatasetSummary:
    """The line of a folder in the storage root that no recipe belongs to."""
    state = DatasetState("no recipe", (NO_RECIPE,))
    return _summary(layout, state, read_shards(layout.shards), recipe=None)


def layout_without_recipe(root: Path, name: str) -> Layout | None:
    """Where the dataset of a storage folder lies, by its owner file; None for other folders."""
    try:
        owner = json.loads(Layout(root, name, Path()).owner.read_bytes())
        return Layout(root, name, Path(owner["output_dir"]), owner.get("format", "energon"))
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError):
        return None


def folder_bytes(folder: Path, seen: set[tuple[int, int]]) -> int:
    """Bytes of the files below a folder; a file is counted once, and links are not followed.

    `seen` holds (device, inode) of the files counted already; a hard link to one counts nothing.
    """
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                status = os.lstat(os.path.join(parent, name))
            except FileNotFoundError:
                # A run is at work there.
                continue
            identity = status.st_dev, status.st_ino
            if identity not in seen:
                seen.add(identity)
                total += status.st_size
    return total


def _summary(
    layout: Layout, state: DatasetState, shards: list[PlannedShard], *, recipe: Path | None
) -> DatasetSummary:
    content = read_provenance(layout.dataset_json)
    mine = content if content and content["dataset"] == layout.dataset else None
    samples: int | None = sum(shard.num_samples for shard in shards) if shards else None
    number: int | None = len(shards) if shards else None
    if mine is not None:
        samples, number = mine["counts"]["written"], mine["counts"]["shards"]
    seen: set[tuple[int, int]] = set()
    is_there = mine is not None or layout.prepared.exists()
    return DatasetSummary(
        dataset=layout.dataset,
        state=state.name,
        why=state.why,
        samples=samples,
        shards=number,
        output_bytes=folder_bytes(layout.output_dir, seen) if is_there else 0,
        work_bytes=folder_bytes(layout.folder, seen),
        made=_made(layout),
        recipe=None if recipe is None else str(recipe),
        output_dir=str(layout.output_dir),
        formats=tuple(name for name in SHARD_STAGE if layout.of(name).prepared.exists()),
    )


def _made(layout: Layout) -> str | None:
    """When the dataset was last published, local time."""
    for path in (layout.prepared, layout.dataset_json):
        if path.exists():
            return time.strftime("%Y-%m-%d %H:%M", time.localtime(path.stat().st_mtime))
    return None
