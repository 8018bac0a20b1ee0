"""Which folders of an MDS tree a trainer streams, each with its index and its shards' skip lists.

    <split>/<tier>/<width / height, 3 decimals>/index.json, shard.000003.mds
    .../shard.000003.mds.skip.<rule>.json       {"rule": ..., "skip": [numbers within the shard]}

The library refuses a stream without samples, and its `per_stream` batches one that fills none: a
folder that serves nothing has no index, so PRX's loader, which looks for indexes, passes it by.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from diffprep_assets.energon_prepare.names import PublishedShard
from diffprep_assets.layout import Layout
from diffprep_assets.shard.record import sample_columns
from diffprep_resources.errors import SettingError
from diffprep_resources.mds.layout import INDEX_NAME, index_bytes, index_entry
from diffprep_resources.mds.reader import open_shard

SIDECAR = ".skip."


@dataclass(frozen=True, slots=True)
class MdsFolder:
    """One stream: its folder relative to the output folder, and its shards, sorted by name."""

    name: str
    shards: tuple[PublishedShard, ...]

    @property
    def num_served(self) -> int:
        """Samples that a trainer gets."""
        return sum(shard.num_served for shard in self.shards)

    def index_path(self, layout: Layout) -> Path:
        return layout.output_dir / self.name / INDEX_NAME


def mds_folders(shards: Sequence[PublishedShard]) -> tuple[MdsFolder, ...]:
    """The streams that these shards make, sorted by folder. Raises SettingError where two sizes of
    a tier have one aspect: a batch takes pictures of one size."""
    found: dict[str, list[PublishedShard]] = {}
    for shard in shards:
        found.setdefault(shard.name.rpartition("/")[0], []).append(shard)
    folders = []
    for name in sorted(found):
        sizes = sorted({(s.record.width, s.record.height) for s in found[name]})
        if len(sizes) > 1:
            named = " and ".join(f"{width}x{height}" for width, height in sizes)
            raise SettingError(
                f"buckets {named} would share the MDS folder {name}, as they have one aspect to "
                f"3 decimals; give image.buckets.shapes only one of them"
            )
        folders.append(MdsFolder(name, tuple(sorted(found[name], key=lambda shard: shard.name))))
    return tuple(folders)


def folder_index(layout: Layout, folder: MdsFolder) -> bytes:
    """index.json of the folder, from the published shards' own headers and recorded digests."""
    entries = []
    for shard in folder.shards:
        with open_shard(layout.output_dir / shard.name) as reader:
            header = reader.header
        entries.append(
            index_entry(
                header.config,
                basename=shard.name.rpartition("/")[2],
                num_samples=header.num_samples,
                size_bytes=header.offsets[-1],
                digest=shard.record.digest,
            )
        )
    return index_bytes(entries)


def sidecars(shard: PublishedShard) -> dict[str, bytes]:
    """The shard's skip lists by name relative to the output folder, one for each rule."""
    if not shard.skipped:
        return {}
    (ids,) = sample_columns(shard.samples, "sample_id")
    numbers: dict[str, list[int]] = {}
    for number, sample_id in enumerate(ids):
        if sample_id in shard.skipped:
            numbers.setdefault(shard.skipped[sample_id], []).append(number)
    return {
        f"{shard.name}{SIDECAR}{list_name(rule)}.json": _sidecar(rule, skipped)
        for rule, skipped in sorted(numbers.items())
    }


def list_name(rule: str) -> str:
    """A rule as part of a file's name: `skip_list:blurry` is `skip_list-blurry`; what a name should
    not hold is written as its hex code."""
    return re.sub(r"[^A-Za-z0-9_.-]", lambda c: "%" + c[0].encode().hex(), rule.replace(":", "-"))


def is_our_sidecar(path: Path) -> bool:
    """Whether a skip list was written by diffprep: it says by which rule. Others stay."""
    try:
        content: Any = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return False
    return isinstance(content, dict) and isinstance(content.get("rule"), str)


def local_folders(folders: Sequence[MdsFolder]) -> dict[str, list[str]]:
    """By split what a trainer's `local:` lists: PRX looks for streams one level below."""
    found: dict[str, list[str]] = {}
    for folder in folders:
        split, tier, _ = folder.name.split("/")
        place = f"{split}/{tier}"
        if folder.num_served and place not in found.setdefault(split, []):
            found[split].append(place)
    return {split: sorted(places, key=_by_tier) for split, places in found.items() if places}


def _by_tier(place: str) -> int:
    return int(place.rpartition("/")[2])


def _sidecar(rule: str, numbers: Sequence[int]) -> bytes:
    content: Mapping[str, Any] = {"rule": rule, "skip": list(numbers)}
    return json.dumps(content, sort_keys=True).encode()
