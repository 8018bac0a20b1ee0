"""Everything published beside the tars: written in an order that no reader can trip over."""

import filecmp
import io
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diffprep_assets.energon_prepare.card import MARKER, card
from diffprep_assets.energon_prepare.card_pictures import is_ours
from diffprep_assets.energon_prepare.folder_metadata import (
    FolderMetadata,
    write_if_changed,
)
from diffprep_assets.energon_prepare.folders import (
    EnergonFolder,
    folder_layout,
    folder_of,
    metadataset_yaml,
    our_metadataset,
)
from diffprep_assets.energon_prepare.index import MetaFiles
from diffprep_assets.energon_prepare.names import PublishedShard
from diffprep_assets.energon_prepare.output_state import Stamp
from diffprep_assets.energon_prepare.provenance import provenance_bytes, read_provenance
from diffprep_assets.layout import Layout
from diffprep_resources.storage.atomic import link_or_copy

if TYPE_CHECKING:
    import numpy as np

# energon reads .info.json, and about a millisecond later split.yaml (7.4.1, metadata.py). One that
# read the first before our change must not find the second changed: it would raise KeyError.
OPENING_S = 0.05
# A metadataset's folders are opened one after another.
OPENING_FOLDER_S = 0.01


@dataclass(frozen=True, slots=True)
class EmptyEncodings:
    """The encoding of the empty caption, float32: t5 [1, L, D], clip [1, P]."""

    t5: "np.ndarray"
    clip: "np.ndarray"


def write_metadata(
    layout: Layout,
    *,
    folders: Sequence[EnergonFolder],
    content: Mapping[str, Any],
    empty: EmptyEncodings | None,
    index_stamps: Mapping[str, Stamp],
    pictures: bytes | None = None,
) -> dict[str, Stamp]:
    """Stamps of the index files, once everything but the tars and .idx is up to date.

    `content` is that of dataset.json, `pictures` the sheet that the card shows. What is right
    already is not written again. Metadata of folders that are none any more stays, see
    `remove_other_metadata`.
    """
    with _folder_metadata(layout, folders, content["encoding"], index_stamps) as metadata:
        for one in metadata:
            one.build()
        _write_empty_encodings(layout, folders, empty)
        _switch(layout, metadata)
        stamps = {name: stamp for one in metadata for name, stamp in one.stamps().items()}
    write_if_changed(layout.dataset_json, provenance_bytes(content))
    if pictures is not None:
        write_if_changed(layout.card_pictures, pictures)
    else:
        remove_pictures(layout)
    if not layout.card.exists() or MARKER.encode() in layout.card.read_bytes():
        shown = None if pictures is None else layout.card_pictures.name
        write_if_changed(layout.card, card(content, pictures=shown))
    return stamps


@contextmanager
def _folder_metadata(
    layout: Layout,
    folders: Sequence[EnergonFolder],
    encoding: str,
    stamps: Mapping[str, Stamp],
) -> Iterator[list[FolderMetadata]]:
    metadata = [
        FolderMetadata(layout, folder, encoding=encoding, stamps=stamps) for folder in folders
    ]
    try:
        yield metadata
    finally:
        for one in metadata:
            one.discard()


def _switch(layout: Layout, metadata: Sequence[FolderMetadata]) -> None:
    """Every folder to its new dataset. While more than one changes, metadataset.yaml is away: one
    that opens it then fails, and gets no mixture of old and new folders."""
    blend = metadataset_yaml([one.folder for one in metadata])
    known = our_metadataset(layout)
    pause = 0.0
    if any(one.changes and not one.appears for one in metadata):
        pause = OPENING_S
    for one in metadata:
        one.announce()
    if known is not None and (blend is None or _num_moves(layout, metadata) > 1):
        layout.metadataset.unlink(missing_ok=True)
        pause = OPENING_S + OPENING_FOLDER_S * len(metadata)
    for one in metadata:
        one.take_down()
    time.sleep(pause)
    for one in metadata:
        one.switch()
    # One of somebody's own stays.
    if blend is not None and (known is not None or not layout.metadataset.exists()):
        write_if_changed(layout.metadataset, blend)


def _num_moves(layout: Layout, metadata: Sequence[FolderMetadata]) -> int:
    """How many folders change, come or go: one alone is a switch by itself."""
    content = read_provenance(layout.dataset_json) or {"shards": []}
    before = {folder_of(shard["name"]) for shard in content["shards"]}
    gone = before - {one.folder.name for one in metadata}
    return len(gone) + sum(one.changes for one in metadata)


def metadata_is_current(
    layout: Layout, shards: Sequence[PublishedShard], folders: Sequence[EnergonFolder]
) -> bool:
    """True when the published metadata, if there is any, describes just these shards."""
    content = read_provenance(layout.dataset_json) or {"shards": [], "encoding": ""}
    described = {(s["name"], s["split"], s["digest"]) for s in content["shards"]}
    if described != {(shard.name, shard.split, shard.record.digest) for shard in shards}:
        return False
    if our_metadataset(layout) != metadataset_yaml(folders):
        return False
    with _folder_metadata(layout, folders, content["encoding"], {}) as metadata:
        return all(one.is_current for one in metadata)


def remove_metadata(layout: Layout, *, names: Sequence[str]) -> None:
    """Take down everything but tars: `names` are the shards whose .idx goes too."""
    if our_metadataset(layout) is not None:
        layout.metadataset.unlink()
    remove_other_metadata(layout, names=names, folders=())
    ours = [layout.dataset_json, *(idx_path(layout, name) for name in names)]
    if layout.card.exists() and MARKER.encode() in layout.card.read_bytes():
        ours.append(layout.card)
    remove_pictures(layout)
    _remove_empty_encodings(layout)
    for path in ours:
        path.unlink(missing_ok=True)


def remove_other_metadata(
    layout: Layout, *, names: Iterable[str], folders: Sequence[EnergonFolder]
) -> None:
    """Take down the metadata of ours that another layout, or a bucket that is gone, left: in the
    output folder and those of the shards `names`, but for `folders`. The empty encodings of the
    output folder stay: trainers look there, too, for a bucket's."""
    current = {folder.name for folder in folders}
    for name in sorted({"", *(folder_of(name) for name in names)} - current):
        here = folder_layout(layout, name)
        meta = MetaFiles(here.nv_meta)
        if not meta.is_ours:
            continue
        if name:
            _remove_empty_encodings(here)
        for path in meta.all():
            path.unlink(missing_ok=True)
        remove_empty_folder(meta.folder)


def idx_path(layout: Layout, name: str) -> Path:
    """Energon's offsets of the shard published as `name`."""
    return layout.output_dir / f"{name}.idx"


def remove_empty_folder(folder: Path) -> None:
    """Remove `folder` if it is there and holds nothing."""
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def remove_pictures(layout: Layout) -> None:
    """Remove the card's sheet; a file of somebody else's under its name stays."""
    if layout.card_pictures.exists() and is_ours(layout.card_pictures):
        layout.card_pictures.unlink()


def empty_files(layout: Layout) -> tuple[Path, Path]:
    """The two files of the empty caption's encoding."""
    folder = layout.published_empty_encodings
    return folder / "t5_empty.npy", folder / "clip_empty.npy"


def _remove_empty_encodings(layout: Layout) -> None:
    for path in empty_files(layout):
        path.unlink(missing_ok=True)
    remove_empty_folder(layout.published_empty_encodings)


def _write_empty_encodings(
    layout: Layout, folders: Sequence[EnergonFolder], empty: EmptyEncodings | None
) -> None:
    """The files in the output folder; those of buckets are links to them."""
    import numpy as np

    if empty is None:
        return
    for path, array in zip(empty_files(layout), (empty.t5, empty.clip), strict=True):
        if array.dtype != np.float32 or array.shape[0] != 1:
            raise ValueError(
                f"{path.name} must be float32 [1, ...], got {array.dtype} {array.shape}"
            )
        buffer = io.BytesIO()
        np.save(buffer, np.ascontiguousarray(array), allow_pickle=False)
        write_if_changed(path, buffer.getvalue())
    for folder in folders:
        targets = empty_files(folder.in_layout(layout))
        for source, target in zip(empty_files(layout), targets, strict=True):
            if not target.exists() or not _same(source, target):
                link_or_copy(source, target)


def _same(one: Path, other: Path) -> bool:
    return one.samefile(other) or filecmp.cmp(one, other, shallow=False)
