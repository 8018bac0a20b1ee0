"""A FastVideo dataset as a trainer finds it: the trees, their files, and what is said of them."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from diffprep_assets.energon_prepare.names import TREES
from diffprep_assets.energon_prepare.provenance import read_provenance
from diffprep_assets.fastvideo_prepare.validation_set import VALIDATION_JSON
from diffprep_assets.layout import Layout
from diffprep_assets.validate.report import Check, Failure
from diffprep_resources.encoders.base import Workload
from diffprep_resources.fastvideo.schema import fastvideo_schema
from diffprep_resources.fastvideo.trees import CACHE
from diffprep_resources.storage.parquet_tables import DamagedTableError, readable_table

PROMPT_KEYS = {"caption", "image_path", "video_path", "height", "width", "num_frames"}


@dataclass(frozen=True, slots=True)
class FastVideoTrees:
    """All parquet files under `path` by tree, names relative to `path`, in their order;
    `provenance` is dataset.json's content, None where it is not ours."""

    path: Path
    provenance: Mapping[str, Any] | None
    files: Mapping[str, tuple[str, ...]]
    workload: Workload

    @property
    def described(self) -> Mapping[str, Mapping[str, Any]]:
        """What dataset.json says of each file."""
        return (self.provenance or {}).get("fastvideo", {}).get("files", {})

    @property
    def described_trees(self) -> Mapping[str, Mapping[str, Any]]:
        """What dataset.json says of each tree."""
        return (self.provenance or {}).get("fastvideo", {}).get("trees", {})

    def shard_of(self, name: str) -> str:
        """The published name of a file's shard: its folder."""
        return name.rpartition("/")[0]


def read_trees(path: Path) -> tuple[FastVideoTrees, Check]:
    """The trees, and the check `metadata`: the files are those that dataset.json lists, no stale
    list of files lies there, and every validation.json can be read with its pictures."""
    provenance = read_provenance(Layout(path.parent, path.name, path).dataset_json)
    if provenance is not None and "fastvideo" not in provenance:
        provenance = None
    files = _files(path)
    trees = FastVideoTrees(path, provenance, files, _workload(path, provenance, files))
    failures = [*_listed_failures(trees), *_cache_failures(trees)]
    for place in sorted({path, *((path / tree).parent for tree in files)}):
        failures += _validation_failures(place / VALIDATION_JSON)
    count = sum(len(names) for names in files.values())
    if not count:
        failures.append(Failure(f"{path} holds no parquet file of FastVideo"))
    message = f"{count:,} files in {len(files):,} trees, for {trees.workload}"
    return trees, Check("metadata", message, tuple(failures))


def _files(path: Path) -> dict[str, tuple[str, ...]]:
    """By tree the names of its files: a tree is a folder named as FastVideo's are, else `path`."""
    found: dict[str, list[str]] = {}
    for file in sorted(path.rglob("*.parquet")):
        name = file.relative_to(path)
        if any(part.startswith(".") for part in name.parts):
            continue
        parts = name.parts[:-1]
        depth = next((n for n, part in enumerate(parts, 1) if part in TREES.values()), None)
        if depth is None and (path / "dataset.json").exists():
            # Of another format's output that lies in here.
            continue
        found.setdefault("/".join(parts[:depth] if depth else ()), []).append(name.as_posix())
    return {tree: tuple(sorted(names, key=_order)) for tree, names in found.items()}


def _order(name: str) -> tuple[str, int, str]:
    folder, _, file = name.rpartition("/")
    number = file.removesuffix(".parquet").rpartition("_")[2]
    return folder, int(number) if number.isdigit() else 0, file


def _workload(
    path: Path, provenance: Mapping[str, Any] | None, files: Mapping[str, tuple[str, ...]]
) -> Workload:
    """As dataset.json says, else as the first file's columns do."""
    if provenance is not None:
        return provenance["fastvideo"]["workload"]
    names = [name for tree in files.values() for name in tree]
    for name in names[:1]:
        try:
            with readable_table(path / name):
                columns = set(pq.read_schema(path / name).names)
        except DamagedTableError:
            break
        return "i2v" if columns >= set(fastvideo_schema("i2v").names) else "t2v"
    return "t2v"


def _listed_failures(trees: FastVideoTrees) -> Iterator[Failure]:
    if trees.provenance is None:
        return
    found = {name for names in trees.files.values() for name in names}
    for name in sorted(trees.described.keys() - found):
        shard, _, file = name.rpartition("/")
        yield Failure(f"{file} is listed in dataset.json, and is not there", shard)
    for name in sorted(found - trees.described.keys()):
        yield Failure(f"{name} is not listed in dataset.json: a trainer will read it all the same")


def _cache_failures(trees: FastVideoTrees) -> Iterator[Failure]:
    """A trainer's list of files that is older than the files: it may name some that are gone."""
    for tree in trees.files:
        folder = trees.path / tree
        cache = folder / CACHE
        if cache.exists() and cache.stat().st_mtime_ns < _put_at(folder):
            yield Failure(
                f"{tree}/{CACHE} is older than the files beside it; FastVideo believes it and may "
                f"look for files that are gone: remove that folder"
            )


def _put_at(folder: Path) -> int:
    """When the last shard was put into a tree: a folder's time is that of its last new name."""
    return max((path.stat().st_mtime_ns for path in folder.glob("worker_*")), default=0)


def _validation_failures(path: Path) -> Iterator[Failure]:
    if not path.is_file():
        return
    try:
        prompts = json.loads(path.read_bytes())["data"]
        lacking = [sorted(PROMPT_KEYS - prompt.keys()) for prompt in prompts]
        pictures = [prompt["image_path"] for prompt in prompts if prompt.get("image_path")]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        yield Failure(f"{path.name} cannot be read: {type(error).__name__} {error}")
        return
    for keys in lacking:
        if keys:
            yield Failure(f"{path.name}: a prompt lacks {', '.join(keys)}")
    for picture in pictures:
        if not (path.parent / picture).is_file():
            yield Failure(f"{path.name} names {picture}, which is not there")
