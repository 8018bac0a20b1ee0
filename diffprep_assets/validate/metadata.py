"""A published dataset's metadata files, read without believing them."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from diffprep_assets.energon_prepare.folders import folder_layout, folder_of
from diffprep_assets.energon_prepare.index import MetaFiles
from diffprep_assets.energon_prepare.names import TAR_SUFFIX
from diffprep_assets.energon_prepare.provenance import read_provenance
from diffprep_assets.layout import Layout
from diffprep_assets.validate.report import Check, Failure


@dataclass(frozen=True, slots=True)
class DatasetFolder:
    """What the metadata files of a folder say. Without `.nv-meta`, `counts` has None per tar.

    `counts`: shards in index order with their samples; `splits`: shard names by split; `exclude`:
    `<shard>` or `<shard>/<key>`; `provenance`: dataset.json, None when it is not one of ours;
    `buckets`: the folders with `.nv-meta`, "" for the folder itself. All names are seen from it.
    """

    layout: Layout
    counts: Mapping[str, int | None]
    splits: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    exclude: frozenset[str] = frozenset()
    provenance: Mapping[str, Any] | None = None
    encoding: str = "preencoded"
    buckets: tuple[str, ...] = ("",)

    def meta(self, bucket: str = "") -> MetaFiles:
        return MetaFiles(folder_layout(self.layout, bucket).nv_meta)

    def in_bucket(self, bucket: str, names: Iterable[str]) -> list[str]:
        """Those of the shards that the dataset in that folder holds."""
        return [name for name in names if self.buckets == ("",) or folder_of(name) == bucket]

    @property
    def finalized(self) -> bool:
        return bool(self.splits)

    def tar(self, name: str) -> Path:
        return self.layout.output_dir / name


def read_folder(path: Path, *, encoding: str) -> tuple[DatasetFolder, Check]:
    """What the folder's metadata says, as far as it can be read, and whether it is sound."""
    layout = Layout(root=path.parent, dataset=path.name, output_dir=path)
    if not layout.nv_meta.exists() and not layout.dataset_json.exists():
        return _tars_only(layout, encoding)
    failures: list[Failure] = []
    content = read_provenance(layout.dataset_json)
    if layout.dataset_json.exists() and content is None:
        failures.append(Failure(f"{layout.dataset_json.name} is not one that diffprep wrote"))
    buckets = _buckets(content)
    counts: dict[str, int | None] = {}
    splits: dict[str, tuple[str, ...]] = {}
    exclude: frozenset[str] = frozenset()
    for bucket in buckets:
        found = _read_bucket(layout, bucket, encoding, failures)
        counts |= found.counts
        for split, names in found.splits.items():
            splits[split] = (*splits.get(split, ()), *names)
        exclude |= found.exclude
    folder = DatasetFolder(layout, counts, splits, exclude, content, encoding, buckets)
    failures += _split_failures(folder)
    failures += _file_failures(folder)
    excluded = f", {len(exclude):,} names excluded" if exclude else ""
    apart = f", in {len(buckets):,} datasets" if len(buckets) > 1 else ""
    message = f"{len(counts):,} shards in {len(splits)} splits{apart}{excluded}"
    return folder, Check("metadata", message, tuple(failures))


def _buckets(content: Mapping[str, Any] | None) -> tuple[str, ...]:
    """The folders that hold a dataset each, by dataset.json; another tool's has one."""
    if content is None or content.get("layout") != "per_bucket":
        return ("",)
    return tuple(sorted({folder_of(shard["name"]) for shard in content["shards"]})) or ("",)


def _read_bucket(
    layout: Layout, bucket: str, encoding: str, failures: list[Failure]
) -> DatasetFolder:
    """What one folder's metadata says, all names seen from the output folder."""
    found: list[Failure] = []
    meta = MetaFiles(folder_layout(layout, bucket).nv_meta)
    _check_type(meta, encoding, found)
    counts = _read_counts(meta, found)
    splits, exclude = _read_splits(meta, found)
    if not bucket:
        failures += found
        return DatasetFolder(layout, counts, splits, exclude)
    failures += [
        Failure(one.message, f"{bucket}/{one.shard}") if one.shard else Failure(f"{bucket}: {one}")
        for one in found
    ]
    return DatasetFolder(
        layout,
        {f"{bucket}/{name}": count for name, count in counts.items()},
        {split: tuple(f"{bucket}/{name}" for name in names) for split, names in splits.items()},
        frozenset(f"{bucket}/{name}" for name in exclude),
    )


def _tars_only(layout: Layout, encoding: str) -> tuple[DatasetFolder, Check]:
    # Outputs of other formats may lie in folders of their own.
    names = sorted(
        path.relative_to(layout.output_dir).as_posix()
        for path in layout.output_dir.rglob(f"*{TAR_SUFFIX}")
        if not set(layout.other_outputs) & set(path.parents)
    )
    message = f"{len(names):,} tars, not finalized (no .nv-meta, no dataset.json): tars only"
    failures = () if names else (Failure(f"no tar and no .nv-meta in {layout.output_dir}"),)
    folder = DatasetFolder(layout, dict.fromkeys(names), encoding=encoding)
    return folder, Check("metadata", message, failures)


def _check_type(meta: MetaFiles, encoding: str, failures: list[Failure]) -> None:
    content = _yaml(meta.dataset_yaml, failures)
    wanted = {"__module__": "megatron.energon", "__class__": "CrudeWebdataset"}
    for key, value in wanted.items() if content else ():
        if content.get(key) != value:
            failures.append(Failure(f"dataset.yaml: {key} must be {value}, got {content.get(key)}"))
    got = (content.get("subflavors") or {}).get("encoding") if content else encoding
    if got != encoding:
        failures.append(Failure(f"dataset.yaml: subflavors.encoding must be {encoding}, got {got}"))


def _read_counts(meta: MetaFiles, failures: list[Failure]) -> dict[str, int]:
    try:
        counts = json.loads(meta.info_json.read_bytes())["shard_counts"]
        sound = {str(name): int(count) for name, count in counts.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        failures.append(Failure(f".info.json cannot be read: {error!r}"))
        return {}
    for name in list(sound):
        if _leads_outside(name):
            failures.append(Failure(f".info.json names {name!r}, outside the dataset"))
            del sound[name]
    failures += [Failure("no samples by .info.json", n) for n, count in sound.items() if count < 1]
    return sound


def _read_splits(
    meta: MetaFiles, failures: list[Failure]
) -> tuple[dict[str, tuple[str, ...]], frozenset[str]]:
    content = _yaml(meta.split_yaml, failures)
    parts = content.get("split_parts")
    if not isinstance(parts, dict):
        failures.append(Failure("split.yaml has no split_parts"))
        return {}, frozenset()
    splits = {str(split): tuple(_expanded(names or ())) for split, names in parts.items()}
    return splits, frozenset(_expanded(content.get("exclude") or ()))


def _split_failures(folder: DatasetFolder) -> list[Failure]:
    """Every shard in exactly one split, every split's shard counted, something to train on."""
    listed = Counter(name for names in folder.splits.values() for name in names)
    failures = [
        Failure(f"in {times} places of split.yaml", name)
        for name, times in listed.items()
        if times > 1
    ]
    failures += [
        Failure("in split.yaml, not in .info.json", name)
        for name in listed
        if name not in folder.counts
    ]
    failures += [Failure("in no split", name) for name in folder.counts if name not in listed]
    if folder.splits and not folder.splits.get("train"):
        failures.append(Failure("split train is empty: nothing to train on"))
    return failures


def _file_failures(folder: DatasetFolder) -> list[Failure]:
    """The files that must exist, beyond those read already."""
    failures = []
    for name in folder.counts:
        tar = folder.tar(name)
        for path in (tar, tar.with_name(f"{tar.name}.idx")):
            if not path.is_file():
                failures.append(Failure(f"{path.name} is missing", name))
    if folder.provenance is not None:
        metas = [folder.meta(bucket) for bucket in folder.buckets]
        ours = [path for m in metas for path in (m.index_sqlite, m.index_uuid, m.digests)]
        failures += [
            Failure(f"{path.relative_to(folder.layout.output_dir)} is missing")
            for path in (*ours, *([folder.layout.metadataset] if folder.buckets != ("",) else []))
            if not path.is_file()
        ]
    return failures


def _yaml(path: Path, failures: list[Failure]) -> dict[str, Any]:
    try:
        content = yaml.safe_load(path.read_bytes())
    except (OSError, ValueError, yaml.YAMLError) as error:
        failures.append(Failure(f"{path.name} cannot be read: {error}"))
        return {}
    if not isinstance(content, dict):
        failures.append(Failure(f"{path.name} must hold a mapping, got {type(content).__name__}"))
        return {}
    return content


def _expanded(names: Iterable[object]) -> list[str]:
    """Names with energon's braces (`{000000..000003}.tar`) written out."""
    from braceexpand import braceexpand

    return [name for pattern in names for name in braceexpand(str(pattern))]


def _leads_outside(name: str) -> bool:
    path = PurePosixPath(name)
    return path.is_absolute() or ".." in path.parts
