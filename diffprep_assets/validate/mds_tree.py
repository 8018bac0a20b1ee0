"""An MDS tree as a trainer's loader finds it: folders, their indexes, shards and skip lists."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from diffprep_assets.energon_prepare.names import MDS_SUFFIX
from diffprep_assets.energon_prepare.provenance import read_provenance
from diffprep_assets.layout import Layout
from diffprep_assets.mds_prepare.folders import SIDECAR
from diffprep_assets.validate.report import Check, Failure
from diffprep_resources.mds.layout import INDEX_NAME, DamagedShardError
from diffprep_resources.mds.reader import read_index

Entry = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class MdsTree:
    """All shards under `path` by name relative to it, with their index entries, None where no index
    names them; `provenance` is dataset.json's content, None where it is not ours."""

    path: Path
    provenance: Mapping[str, Any] | None
    entries: Mapping[str, Entry | None]
    sidecars: Mapping[str, Sequence[Path]] = field(default_factory=dict)

    @property
    def described(self) -> dict[str, Mapping[str, Any]]:
        """What dataset.json says of each shard."""
        content = self.provenance or {"shards": []}
        return {shard["name"]: shard for shard in content["shards"]}


def read_tree(path: Path) -> tuple[MdsTree, Check]:
    """The tree, and the check `metadata`: every folder's index names just the shards that it
    holds."""
    provenance = read_provenance(Layout(path.parent, path.name, path).dataset_json)
    entries: dict[str, Entry | None] = {}
    sidecars: dict[str, list[Path]] = {}
    failures: list[Failure] = []
    for name in _folders(path):
        folder = path / name
        for shard in sorted(folder.glob(f"*{MDS_SUFFIX}")):
            entries[_joined(name, shard.name)] = None
        for sidecar in sorted(folder.glob(f"*{SIDECAR}*.json")):
            shard = _joined(name, sidecar.name.partition(SIDECAR)[0])
            sidecars.setdefault(shard, []).append(sidecar)
        found, problems = _indexed(folder, name)
        entries.update(found)
        failures += problems
    tree = MdsTree(path, provenance, entries, sidecars)
    failures += _missing(tree)
    folders = len({name.rpartition("/")[0] for name in entries})
    message = f"{len(entries):,} shards in {folders:,} folders, each named by its index"
    if not entries:
        failures.append(Failure(f"{path} holds no MDS shard"))
    return tree, Check("metadata", message, tuple(failures))


def _folders(path: Path) -> list[str]:
    """Folders with an index or a shard, relative to `path`; "" for itself."""
    found = {file.parent for file in path.rglob(f"*{MDS_SUFFIX}")}
    found |= {file.parent for file in path.rglob(INDEX_NAME)}
    names = {folder.relative_to(path).as_posix() for folder in found}
    return sorted("" if name == "." else name for name in names)


def _indexed(folder: Path, name: str) -> tuple[Mapping[str, Entry], list[Failure]]:
    """The entries of a folder's index, none where there is no index."""
    try:
        entries = read_index(folder / INDEX_NAME)
    except FileNotFoundError:
        return {}, []
    except (DamagedShardError, OSError) as error:
        return {}, [Failure(str(error))]
    found = {_joined(name, entry["raw_data"]["basename"]): entry for entry in entries}
    place = _joined(name, INDEX_NAME)
    if not entries:
        return {}, [Failure(f"{place} names no shard, which the library refuses")]
    return found, [Failure(f"{place} names a shard twice")] if len(found) < len(entries) else []


def _missing(tree: MdsTree) -> Iterator[Failure]:
    """Shards that an index names and that are not there, and the other way round."""
    indexed = any(entry is not None for entry in tree.entries.values())
    if tree.provenance is None and not indexed:
        # `finalize: false`: shards and nothing else.
        return
    served = _folders_with_samples(tree)
    for name, entry in sorted(tree.entries.items()):
        if not (tree.path / name).is_file():
            yield Failure(f"{name} is named by the index, and is not there")
        elif entry is None and name.rpartition("/")[0] in served:
            yield Failure(f"{name} is named by no index: a trainer will not see it")


def _folders_with_samples(tree: MdsTree) -> set[str]:
    """Folders that serve something, and so must have an index."""
    if tree.provenance is None:
        return {name.rpartition("/")[0] for name in tree.entries}
    return {
        name.rpartition("/")[0]
        for name, shard in tree.described.items()
        if shard["num_samples"] > shard.get("num_skipped", 0)
    }


def skip_check(tree: MdsTree, samples: Mapping[str, int]) -> Check:
    """The check `skip_lists`: every list fits its shard, and together they skip what dataset.json
    says. `samples` is the number of samples of each sound shard."""
    failures: list[Failure] = []
    skipped: dict[str, set[int]] = {}
    for shard, paths in sorted(tree.sidecars.items()):
        if shard not in tree.entries:
            failures.append(Failure(f"{shard} has skip lists, and is not there"))
        for path in paths:
            numbers, problem = _skips(path, samples.get(shard))
            skipped.setdefault(shard, set()).update(numbers)
            if problem:
                failures.append(Failure(f"{path.relative_to(tree.path)} {problem}"))
    for name, shard in sorted(tree.described.items()):
        wanted, found = shard.get("num_skipped", 0), len(skipped.get(name, ()))
        # Lists of somebody else's may skip more.
        if found < wanted:
            failures.append(Failure(f"{name} skips {found} samples, dataset.json says {wanted}"))
    total = sum(len(numbers) for numbers in skipped.values())
    lists = sum(len(paths) for paths in tree.sidecars.values())
    return Check("skip_lists", f"{lists:,} lists skip {total:,} samples", tuple(failures))


def _skips(path: Path, num_samples: int | None) -> tuple[set[int], str]:
    """The numbers that a list skips, and what is wrong with it; "" where nothing is."""
    try:
        numbers = json.loads(path.read_bytes())["skip"]
        wrong = [number for number in numbers if type(number) is not int or number < 0]
    except (OSError, ValueError, KeyError, TypeError) as error:
        return set(), f'must hold {{"skip": [numbers]}}: {type(error).__name__} {error}'
    if num_samples is not None:
        wrong += [n for n in numbers if type(n) is int and n >= num_samples]
    if wrong:
        return set(), f"names sample {wrong[0]!r}, which its shard does not have"
    return set(numbers), ""


def _joined(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name
