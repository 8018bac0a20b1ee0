"""Which folders of the output are datasets that energon opens: the whole, or each bucket's own.

In layout `per_bucket` a bucket's folder has metadata of its own, for trainers that cannot group a
batch by shape, and metadataset.yaml blends them. Without folders for buckets (one size for all
pictures) there is one bucket, and the output folder itself is its dataset.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import yaml

from diffprep_assets.energon_prepare.names import SPLITS, PublishedShard
from diffprep_assets.layout import Layout

MARKER = b"# diffprep writes this file anew\n"


@dataclass(frozen=True, slots=True)
class EnergonFolder:
    """One dataset: its folder relative to the output folder, "" for that itself, and its shards,
    named from there."""

    name: str
    shards: tuple[PublishedShard, ...]

    def in_layout(self, layout: Layout) -> Layout:
        """Where its files are."""
        return folder_layout(layout, self.name)

    def served(self, split: str) -> int:
        """Samples of a split that a trainer gets."""
        return sum(shard.num_served for shard in self.shards if shard.split == split)


def folder_layout(layout: Layout, name: str) -> Layout:
    """The layout whose output folder is the folder `name` of this one's."""
    return replace(layout, output_dir=layout.output_dir / name) if name else layout


def folder_of(name: str) -> str:
    """The folder of a shard's name: its bucket's, or "" where buckets have none."""
    return name.rpartition("/")[0]


def energon_folders(
    shards: Sequence[PublishedShard], *, per_bucket: bool
) -> tuple[EnergonFolder, ...]:
    """The datasets that these shards make, sorted by folder."""
    if not per_bucket:
        return (EnergonFolder("", tuple(shards)),)
    found: dict[str, list[PublishedShard]] = {}
    for shard in shards:
        folder, _, file = shard.name.rpartition("/")
        found.setdefault(folder, []).append(replace(shard, name=file))
    return tuple(EnergonFolder(name, tuple(found[name])) for name in sorted(found))


def metadataset_yaml(folders: Sequence[EnergonFolder]) -> bytes | None:
    """metadataset.yaml: by split the folders that serve it, weighted by samples; None for one
    dataset that is the output folder itself.

    A folder that serves nothing of a split is not named: energon refuses to open it.
    """
    if [folder.name for folder in folders] == [""]:
        return None
    blends = {
        split: [
            {"path": f"./{folder.name}", "weight": folder.served(split)}
            for folder in folders
            if folder.served(split)
        ]
        for split in SPLITS
    }
    content = {
        "__module__": "megatron.energon",
        "__class__": "MetadatasetV2",
        "splits": {split: {"blend": blend} for split, blend in blends.items() if blend},
    }
    return MARKER + yaml.dump(content, sort_keys=False).encode()


def our_metadataset(layout: Layout) -> bytes | None:
    """What stands in metadataset.yaml; None where there is none, or one of somebody's own."""
    path = layout.metadataset
    content = path.read_bytes() if path.is_file() else b""
    return content if content.startswith(MARKER) else None
