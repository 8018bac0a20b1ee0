"""The MDS tree brought up to the finished shards, so that no reader ever sees a mixture.

Order, and what a reader that comes at that moment finds (the library reads a folder's index.json
once, then shards as it goes; as a name never changes content, the index alone decides):

    state saved       which names are ours, before one of them exists
    shards            under new names, beside the old ones, then their skip lists: the old dataset
    index.json        the switch, folder by folder; a folder that serves nothing loses its index
    dataset.json, README.md, and skip lists that no longer count
    old names gone    who began before finds a file missing
    state saved       only what is there now

Each step compares with what is on disk, so running it again after a crash anywhere mends it. A skip
writes skip lists, and no shard.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from diffprep_assets.energon_prepare.card import MARKER, card
from diffprep_assets.energon_prepare.folder_metadata import write_if_changed
from diffprep_assets.energon_prepare.metadata_files import remove_pictures
from diffprep_assets.energon_prepare.names import PublishedShard, mds_base_name
from diffprep_assets.energon_prepare.output_state import OutputState, load_state, save_state
from diffprep_assets.energon_prepare.provenance import (
    DatasetDescription,
    provenance,
    provenance_bytes,
)
from diffprep_assets.energon_prepare.publish import (
    FinishedShard,
    Publication,
    named_shards,
    planned_state,
    put_shard,
    refuse_nothing_to_train,
    settled_state,
    unlink_old,
)
from diffprep_assets.layout import Layout
from diffprep_assets.mds_prepare.folders import (
    SIDECAR,
    MdsFolder,
    folder_index,
    is_our_sidecar,
    local_folders,
    mds_folders,
    sidecars,
)
from diffprep_resources.mds.layout import INDEX_NAME
from diffprep_resources.storage.atomic import remove_leftovers


@dataclass(frozen=True, slots=True)
class MdsFacts:
    """What dataset.json says under `mds`: the encoding of every column, the format of the pictures
    in `image`, and with which weights a trainer draws among the captions."""

    columns: Mapping[str, str]
    image_format: str
    caption_weights: Mapping[str, float]


def publish_mds(
    layout: Layout,
    *,
    shards: Sequence[FinishedShard],
    description: DatasetDescription,
    facts: MdsFacts,
    finalize: bool = True,
) -> Publication:
    """What was published: every shard with samples, under a name that never held other content.

    With `finalize` false only shards are published, and what describes them is taken down. The
    caller holds the dataset's lock. Raises SettingError when the output folder is another
    dataset's, StageInputError when a shard is missing, DiffprepError when there is nothing to
    train on.
    """
    refuse_nothing_to_train(layout, shards)
    before = load_state(layout)
    named = named_shards(
        layout,
        shards,
        state=before,
        base=lambda shard: mds_base_name(shard.record, split=shard.split),
    )
    folders = mds_folders(named)
    state = planned_state(before, named)
    save_state(layout, state)
    _remove_leftovers(layout, state)
    added = tuple(shard.name for shard in named if put_shard(layout, shard))
    _write_sidecars(layout, named)
    _switch(layout, folders if finalize else (), state)
    if finalize:
        content = provenance(description, shards=named, rewrites=state.rewrites)
        content["mds"] = {**asdict(facts), "local": local_folders(folders)}
        _write_description(layout, content, description.pictures)
    else:
        _remove_description(layout)
    _remove_sidecars(layout, state, named)
    removed = unlink_old(layout, state, named)
    save_state(layout, settled_state(layout, state, named))
    return Publication(named, added, removed)


def _write_sidecars(layout: Layout, named: Sequence[PublishedShard]) -> None:
    for shard in named:
        for name, data in sidecars(shard).items():
            write_if_changed(layout.output_dir / name, data)


def _switch(layout: Layout, folders: Sequence[MdsFolder], state: OutputState) -> None:
    """Every folder's index: written where it serves samples, gone where it serves none."""
    served = {folder.name: folder for folder in folders if folder.num_served}
    for name in sorted(_folder_names(state)):
        path = layout.output_dir / name / INDEX_NAME
        if name in served:
            write_if_changed(path, folder_index(layout, served[name]))
        else:
            path.unlink(missing_ok=True)


def _write_description(layout: Layout, content: Mapping[str, Any], pictures: bytes | None) -> None:
    """dataset.json, the card and its pictures; a card whose mark was removed stays as it is."""
    write_if_changed(layout.dataset_json, provenance_bytes(content))
    if pictures is None:
        remove_pictures(layout)
    else:
        write_if_changed(layout.card_pictures, pictures)
    if not layout.card.exists() or MARKER.encode() in layout.card.read_bytes():
        shown = None if pictures is None else layout.card_pictures.name
        write_if_changed(layout.card, card(content, pictures=shown))


def _remove_description(layout: Layout) -> None:
    layout.dataset_json.unlink(missing_ok=True)
    remove_pictures(layout)
    if layout.card.exists() and MARKER.encode() in layout.card.read_bytes():
        layout.card.unlink()


def _remove_sidecars(layout: Layout, state: OutputState, named: Sequence[PublishedShard]) -> None:
    """Remove the skip lists of ours that no longer count, and all those of shards that go."""
    current = {shard.name for shard in named}
    wanted = {name for shard in named for name in sidecars(shard)}
    for path in _sidecar_paths(layout, state):
        name = path.relative_to(layout.output_dir).as_posix()
        shard = name.partition(SIDECAR)[0]
        gone = shard in state.files and shard not in current
        if gone or (shard in current and name not in wanted and is_our_sidecar(path)):
            path.unlink()


def _sidecar_paths(layout: Layout, state: OutputState) -> Iterator[Path]:
    for folder in sorted(_folder_names(state)):
        yield from sorted((layout.output_dir / folder).glob(f"*{SIDECAR}*.json"))


def _folder_names(state: OutputState) -> set[str]:
    return {name.rpartition("/")[0] for name in state.files}


def _remove_leftovers(layout: Layout, state: OutputState) -> None:
    """Remove half-written files of a killed run from the folders that this dataset uses."""
    for name in ("", *_folder_names(state)):
        remove_leftovers(layout.output_dir / name)
