"""Everything published beside the tars: written in an order that no reader can trip over."""

import io
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diffprep_assets.energon_prepare.card import MARKER, card
from diffprep_assets.energon_prepare.card_pictures import is_ours
from diffprep_assets.energon_prepare.index import (
    MetaFiles,
    dataset_yaml,
    index_uuid,
    info_json,
    split_yaml,
    write_digests,
    write_index_sqlite,
)
from diffprep_assets.energon_prepare.names import PublishedShard
from diffprep_assets.energon_prepare.output_state import Stamp, stamp_of
from diffprep_assets.energon_prepare.provenance import provenance_bytes, read_provenance
from diffprep_assets.layout import Layout
from diffprep_resources.storage.atomic import commit, temporary_beside, write_bytes

if TYPE_CHECKING:
    import numpy as np

# energon reads .info.json, and about a millisecond later split.yaml (7.4.1, metadata.py). One that
# read the first before our change must not find the second changed: it would raise KeyError.
OPENING_S = 0.05


@dataclass(frozen=True, slots=True)
class EmptyEncodings:
    """The encoding of the empty caption, float32: t5 [1, L, D], clip [1, P]."""

    t5: "np.ndarray"
    clip: "np.ndarray"


def write_metadata(
    layout: Layout,
    *,
    shards: Sequence[PublishedShard],
    content: Mapping[str, Any],
    empty: EmptyEncodings | None,
    index_stamps: Mapping[str, Stamp],
    pictures: bytes | None = None,
) -> dict[str, Stamp]:
    """Stamps of the index files, once everything but the tars and .idx is up to date.

    `content` is that of dataset.json, `pictures` the sheet that the card shows. What is right
    already is not written again.
    """
    meta = MetaFiles(layout.nv_meta)
    meta.folder.mkdir(parents=True, exist_ok=True)
    index = _IndexFiles(meta, shards, index_stamps)
    try:
        index.build()
        _switch(layout, meta, shards, index=index, content=content, empty=empty)
    finally:
        index.discard()
    write_if_changed(layout.dataset_json, provenance_bytes(content))
    if pictures is not None:
        write_if_changed(layout.card_pictures, pictures)
    else:
        _remove_pictures(layout)
    if not layout.card.exists() or MARKER.encode() in layout.card.read_bytes():
        shown = None if pictures is None else layout.card_pictures.name
        write_if_changed(layout.card, card(content, pictures=shown))
    return index.stamps()


def _switch(
    layout: Layout,
    meta: MetaFiles,
    shards: Sequence[PublishedShard],
    *,
    index: "_IndexFiles",
    content: Mapping[str, Any],
    empty: EmptyEncodings | None,
) -> None:
    counts = {shard.name: shard.record.num_samples for shard in shards}
    info, split = info_json(counts), split_yaml(shards)
    before = published_counts(meta)
    if before is not None and _content(meta.info_json) != info:
        write_if_changed(meta.info_json, info_json({**before, **counts}))
    index.take_down()
    write_if_changed(meta.dataset_yaml, dataset_yaml(content["encoding"]))
    _write_empty_encodings(layout.published_empty_encodings, empty)
    if before is not None and _content(meta.split_yaml) != split:
        time.sleep(OPENING_S)
    write_if_changed(meta.split_yaml, split)
    write_if_changed(meta.info_json, info)
    index.put_up()


class _IndexFiles:
    """index.sqlite, digests.parquet and index.uuid: built aside, swapped once the split stands."""

    def __init__(
        self, meta: MetaFiles, shards: Sequence[PublishedShard], stamps: Mapping[str, Stamp]
    ) -> None:
        self._meta = meta
        self._shards = shards
        self._uuid = index_uuid(shards)
        self._targets = (meta.index_sqlite, meta.digests)
        self._built: list[Path] = []
        stands = all(stamps.get(path.name) == stamp_of(path) for path in self._targets)
        self._fresh = bool(stamps) and stands and _content(meta.index_uuid) == self._uuid

    def build(self) -> None:
        if self._fresh:
            return
        self._built = [temporary_beside(path) for path in self._targets]
        write_index_sqlite(self._built[0], self._shards)
        write_digests(self._built[1], self._shards)

    def take_down(self) -> None:
        if not self._fresh:
            self._meta.index_sqlite.unlink(missing_ok=True)
            self._meta.index_uuid.unlink(missing_ok=True)

    def put_up(self) -> None:
        for built, target in zip(self._built, self._targets, strict=False):
            commit(built, target)
        write_if_changed(self._meta.index_uuid, self._uuid)

    def discard(self) -> None:
        for built in self._built:
            built.unlink(missing_ok=True)

    def stamps(self) -> dict[str, Stamp]:
        found = {path.name: stamp_of(path) for path in self._targets}
        return {name: stamp for name, stamp in found.items() if stamp is not None}


def metadata_is_current(layout: Layout, shards: Sequence[PublishedShard]) -> bool:
    """True when the published metadata, if there is any, describes just these shards."""
    meta = MetaFiles(layout.nv_meta)
    counts = {shard.name: shard.record.num_samples for shard in shards}
    content = read_provenance(layout.dataset_json) or {"shards": []}
    described = {(s["name"], s["split"], s["digest"]) for s in content["shards"]}
    return (
        described == {(shard.name, shard.split, shard.record.digest) for shard in shards}
        and _content(meta.info_json) == info_json(counts)
        and _content(meta.split_yaml) == split_yaml(shards)
    )


def remove_metadata(layout: Layout, *, names: Sequence[str]) -> None:
    """Take down everything but tars: `names` are the shards whose .idx goes too."""
    meta = MetaFiles(layout.nv_meta)
    ours = [*meta.all(), layout.dataset_json, *_empty_files(layout.published_empty_encodings)]
    if layout.card.exists() and MARKER.encode() in layout.card.read_bytes():
        ours.append(layout.card)
    _remove_pictures(layout)
    for path in [*ours, *(idx_path(layout, name) for name in names)]:
        path.unlink(missing_ok=True)
    for folder in (meta.folder, layout.published_empty_encodings):
        remove_empty_folder(folder)


def idx_path(layout: Layout, name: str) -> Path:
    """Energon's offsets of the shard published as `name`."""
    return layout.output_dir / f"{name}.idx"


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
    if _content(path) != data:
        write_bytes(path, data)


def remove_empty_folder(folder: Path) -> None:
    """Remove `folder` if it is there and holds nothing."""
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def _remove_pictures(layout: Layout) -> None:
    """Remove the card's sheet; a file of somebody else's under its name stays."""
    if layout.card_pictures.exists() and is_ours(layout.card_pictures):
        layout.card_pictures.unlink()


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _empty_files(folder: Path) -> tuple[Path, Path]:
    return folder / "t5_empty.npy", folder / "clip_empty.npy"


def _write_empty_encodings(folder: Path, empty: EmptyEncodings | None) -> None:
    import numpy as np

    if empty is None:
        return
    for path, array in zip(_empty_files(folder), (empty.t5, empty.clip), strict=True):
        if array.dtype != np.float32 or array.shape[0] != 1:
            raise ValueError(
                f"{path.name} must be float32 [1, ...], got {array.dtype} {array.shape}"
            )
        buffer = io.BytesIO()
        np.save(buffer, np.ascontiguousarray(array), allow_pickle=False)
        write_if_changed(path, buffer.getvalue())
