"""The output folder brought up to the finished shards, so that no reader ever sees a mixture.

Order, and what a reader that comes at that moment finds (energon reads `.info.json`, then
`split.yaml`, then .idx and tars as it goes; as a name never changes content, `split.yaml` alone
decides the version):

    state saved       which names are ours, before one of them exists
    tars, .idx        under new names, beside the old ones: the old dataset
    .info.json        old and new names together: the old dataset
    index.sqlite gone it numbers shards by their place in .info.json: random access fails
    split.yaml        the switch: the new dataset
    the others        .info.json, index.sqlite, digests.parquet, index.uuid, dataset.json, card
    old names gone    who began before finds a file missing
    state saved       only what is there now

Each step compares with what is on disk, so running it again after a crash anywhere mends it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from diffprep_assets.energon_prepare.index import offsets_idx
from diffprep_assets.energon_prepare.metadata_files import (
    EmptyEncodings,
    idx_path,
    metadata_is_current,
    remove_empty_folder,
    remove_metadata,
    write_if_changed,
    write_metadata,
)
from diffprep_assets.energon_prepare.names import (
    PublishedShard,
    Split,
    base_name,
    choose_name,
    highest_rewrites,
)
from diffprep_assets.energon_prepare.output_state import (
    OutputState,
    PublishedFile,
    is_in_place,
    load_state,
    save_state,
    stamp_of,
)
from diffprep_assets.energon_prepare.provenance import DatasetDescription, provenance
from diffprep_assets.layout import Layout
from diffprep_assets.shard.record import ShardRecord
from diffprep_resources.errors import DiffprepError, StageInputError
from diffprep_resources.storage.atomic import link_or_copy, remove_leftovers


@dataclass(frozen=True, slots=True)
class FinishedShard:
    """One shard of the plan: the split it belongs to, and the record of its finished tar."""

    split: Split
    record: ShardRecord


@dataclass(frozen=True, slots=True)
class Publication:
    """What the output folder holds now, and which names came and went."""

    shards: tuple[PublishedShard, ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]


def publish(
    layout: Layout,
    *,
    shards: Sequence[FinishedShard],
    description: DatasetDescription,
    nested: bool,
    empty: EmptyEncodings | None = None,
    finalize: bool = True,
) -> Publication:
    """What was published: every shard with samples, under a name that never held other content.

    `nested` puts each bucket in its own folder. With `finalize` false only tars are published;
    metadata that no longer describes them is taken down. The caller holds the dataset's lock.
    Raises SettingError when the output folder is another dataset's, StageInputError when a tar is
    missing, DiffprepError when there is nothing to train on.
    """
    _refuse_nothing_to_train(layout, shards)
    before = load_state(layout)
    named = _named(layout, shards, state=before, nested=nested)
    state = _planned(before, named)
    save_state(layout, state)
    _remove_leftovers(layout, state)
    added = tuple(shard.name for shard in named if _put_tar(layout, shard))
    if finalize:
        for shard in named:
            write_if_changed(idx_path(layout, shard.name), offsets_idx(shard))
        content = provenance(description, shards=named, rewrites=state.rewrites)
        stamps = write_metadata(
            layout,
            shards=named,
            content=content,
            empty=empty,
            index_stamps=state.index_stamps,
            pictures=description.pictures,
        )
        state = replace(state, index_stamps=stamps)
    elif not metadata_is_current(layout, named):
        remove_metadata(layout, names=list(state.files))
    removed = _unlink_old(layout, state, named)
    save_state(layout, _settled(layout, state, named))
    return Publication(named, added, removed)


def _refuse_nothing_to_train(layout: Layout, shards: Sequence[FinishedShard]) -> None:
    written = [shard for shard in shards if shard.record.num_samples > 0]
    rejected = sum(len(shard.record.rejects) for shard in shards)
    if not written:
        raise DiffprepError(
            f"dataset {layout.dataset!r}: 0 samples were written ({rejected} rejected while "
            f"encoding), so nothing can be published; `diffprep rejects {layout.dataset}` says why"
        )
    if not any(shard.split == "train" for shard in written):
        splits = ", ".join(sorted({shard.split for shard in written}))
        raise DiffprepError(
            f"dataset {layout.dataset!r}: split train has no sample, only {splits} has; energon "
            f"cannot train on that. What was to be train was rejected while encoding; "
            f"`diffprep rejects {layout.dataset}` says why"
        )


def _named(
    layout: Layout, shards: Sequence[FinishedShard], *, state: OutputState, nested: bool
) -> tuple[PublishedShard, ...]:
    """Every shard that has samples, with its name, sorted by it as `energon prepare` lists tars."""
    named: dict[str, PublishedShard] = {}
    for shard in shards:
        if shard.record.num_samples == 0:
            continue
        name = _name(layout, shard.record, state=state, nested=nested)
        if name in named:
            raise ValueError(
                f"shards {named[name].record.shard} and {shard.record.shard} are both {name}"
            )
        samples = layout.shard_samples(shard.record.shard)
        named[name] = PublishedShard(name, shard.split, shard.record, samples)
    return tuple(named[name] for name in sorted(named))


def _name(layout: Layout, record: ShardRecord, *, state: OutputState, nested: bool) -> str:
    source = layout.shard_tar(record.shard)
    if stamp_of(source) is None:
        raise StageInputError(
            f"shard {record.shard}: {source} is missing; run `diffprep run {layout.dataset}`"
        )
    content = PublishedFile(record.digest, record.size_bytes)

    def fits(name: str) -> bool:
        path = layout.output_dir / name
        known = state.files[name]
        return not path.exists() or is_in_place(path, source=source, content=content, known=known)

    base = base_name(record, nested=nested)
    return choose_name(
        base,
        digest=record.digest,
        given=state.files,
        last_rewrites=state.rewrites.get(base),
        fits=fits,
        taken=lambda name: (layout.output_dir / name).exists(),
    )


def _planned(state: OutputState, named: Sequence[PublishedShard]) -> OutputState:
    """The state with the new names added, and no old one forgotten."""
    files = dict(state.files)
    for shard in named:
        files.setdefault(shard.name, PublishedFile(shard.record.digest, shard.record.size_bytes))
    return replace(state, files=files, rewrites=highest_rewrites(files, known=state.rewrites))


def _put_tar(layout: Layout, shard: PublishedShard) -> bool:
    """True when the tar had to be put under its name; a hard link, so nothing writes through it."""
    target = layout.output_dir / shard.name
    if target.exists():
        return False
    link_or_copy(layout.shard_tar(shard.record.shard), target)
    return True


def _unlink_old(
    layout: Layout, state: OutputState, named: Sequence[PublishedShard]
) -> tuple[str, ...]:
    """The names of ours that no longer count, now gone with their .idx and emptied folders."""
    current = {shard.name for shard in named}
    old = tuple(sorted(name for name in state.files if name not in current))
    for name in old:
        path = layout.output_dir / name
        idx_path(layout, name).unlink(missing_ok=True)
        path.unlink(missing_ok=True)
        for folder in path.parents:
            if folder == layout.output_dir:
                break
            remove_empty_folder(folder)
    return old


def _settled(layout: Layout, state: OutputState, named: Sequence[PublishedShard]) -> OutputState:
    """The state with only the current names, each with its stamps."""
    files = {
        shard.name: PublishedFile(
            shard.record.digest,
            shard.record.size_bytes,
            stamp=stamp_of(layout.output_dir / shard.name),
            source_stamp=stamp_of(layout.shard_tar(shard.record.shard)),
        )
        for shard in named
    }
    return replace(state, files=files)


def _remove_leftovers(layout: Layout, state: OutputState) -> None:
    """Remove half-written files of a killed run from the folders that this dataset uses."""
    folders = {(layout.output_dir / name).parent for name in state.files}
    for folder in (*folders, layout.output_dir, layout.nv_meta, layout.published_empty_encodings):
        remove_leftovers(folder)
