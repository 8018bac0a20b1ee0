"""The `.nv-meta` of one folder that energon opens: built aside, then switched to.

In order: `build`, `announce`, `take_down`, a pause for readers that are just opening it, `switch`.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from diffprep_assets.energon_prepare.exclude import excluded
from diffprep_assets.energon_prepare.folders import EnergonFolder
from diffprep_assets.energon_prepare.index import (
    MetaFiles,
    dataset_yaml,
    index_uuid,
    info_json,
    split_yaml,
    write_digests,
    write_index_sqlite,
)
from diffprep_assets.energon_prepare.output_state import Stamp, stamp_of
from diffprep_assets.layout import Layout
from diffprep_resources.storage.atomic import commit, temporary_beside, write_bytes


class FolderMetadata:
    """What one folder's `.nv-meta` should hold, beside what it holds now."""

    def __init__(
        self, layout: Layout, folder: EnergonFolder, *, encoding: str, stamps: Mapping[str, Stamp]
    ) -> None:
        """`layout` is the whole output's; `stamps` those of the index files when last written."""
        self._base = layout.output_dir
        self._meta = MetaFiles(folder.in_layout(layout).nv_meta)
        self._counts = {shard.name: shard.record.num_samples for shard in folder.shards}
        self._info = info_json(self._counts)
        self._split = split_yaml(folder.shards, exclude=excluded(folder.shards))
        self._dataset = dataset_yaml(encoding)
        self._index = _IndexFiles(
            self._meta,
            folder,
            {path: stamps.get(self._key(path)) for path in _index_paths(self._meta)},
        )
        self.folder = folder
        self._before = published_counts(self._meta)

    @property
    def appears(self) -> bool:
        """Whether a reader finds no dataset here before the switch."""
        return self._before is None

    @property
    def changes(self) -> bool:
        """Whether a reader finds another dataset after the switch."""
        return content_of(self._meta.split_yaml) != self._split

    @property
    def is_current(self) -> bool:
        """Whether what a reader finds is what should be there."""
        return not self.changes and content_of(self._meta.info_json) == self._info

    def build(self) -> None:
        """The index files, aside."""
        self._meta.folder.mkdir(parents=True, exist_ok=True)
        self._index.build()

    def announce(self) -> None:
        """.info.json with old and new names together: still the old dataset."""
        if self._before is not None and content_of(self._meta.info_json) != self._info:
            write_if_changed(self._meta.info_json, info_json({**self._before, **self._counts}))

    def take_down(self) -> None:
        """The index numbers shards by their place in .info.json: random access fails now."""
        self._index.take_down()
        write_if_changed(self._meta.dataset_yaml, self._dataset)

    def switch(self) -> None:
        """split.yaml is the switch; then the rest."""
        write_if_changed(self._meta.split_yaml, self._split)
        write_if_changed(self._meta.info_json, self._info)
        self._index.put_up()

    def discard(self) -> None:
        """Remove what was built and not put in place."""
        self._index.discard()

    def stamps(self) -> dict[str, Stamp]:
        """Of the index files as they stand, by path from the output folder."""
        found = {self._key(path): stamp_of(path) for path in _index_paths(self._meta)}
        return {name: stamp for name, stamp in found.items() if stamp is not None}

    def _key(self, path: Path) -> str:
        return path.relative_to(self._base).as_posix()


class _IndexFiles:
    """index.sqlite, digests.parquet and index.uuid: built aside, swapped once the split stands."""

    def __init__(
        self, meta: MetaFiles, folder: EnergonFolder, stamps: Mapping[Path, Stamp | None]
    ) -> None:
        self._meta = meta
        self._shards = folder.shards
        self._uuid = index_uuid(folder.shards)
        self._built: list[Path] = []
        stand = all(stamp is not None and stamp == stamp_of(path) for path, stamp in stamps.items())
        self._fresh = stand and content_of(meta.index_uuid) == self._uuid

    def build(self) -> None:
        if self._fresh:
            return
        self._built = [temporary_beside(path) for path in _index_paths(self._meta)]
        write_index_sqlite(self._built[0], self._shards)
        write_digests(self._built[1], self._shards)

    def take_down(self) -> None:
        if not self._fresh:
            self._meta.index_sqlite.unlink(missing_ok=True)
            self._meta.index_uuid.unlink(missing_ok=True)

    def put_up(self) -> None:
        for built, target in zip(self._built, _index_paths(self._meta), strict=False):
            commit(built, target)
        write_if_changed(self._meta.index_uuid, self._uuid)

    def discard(self) -> None:
        for built in self._built:
            built.unlink(missing_ok=True)


def _index_paths(meta: MetaFiles) -> tuple[Path, Path]:
    return meta.index_sqlite, meta.digests


def published_counts(meta: MetaFiles) -> dict[str, int] | None:
    """Samples per shard that a reader finds now; None when it finds no dataset."""
    if not meta.split_yaml.exists():
        return None
    try:
        return json.loads(meta.info_json.read_bytes())["shard_counts"]
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def write_if_changed(path: Path, data: bytes) -> None:
    """`path` holding `data`; a file that holds it already keeps its inode and time."""
    if content_of(path) != data:
        write_bytes(path, data)


def content_of(path: Path) -> bytes | None:
    """The file's bytes; None when there is none."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
