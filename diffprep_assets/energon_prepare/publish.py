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

In layout `per_bucket` each bucket's folder goes through this by itself, so a reader of one finds
the old or the new. metadataset.yaml names them all: it is away while more than one of them changes,
and who opens it then finds no file. Between the two layouts the shards keep their names: the new
layout's metadata stands before the old one's goes. A skip changes split.yaml, and no shard.

Each step compares with what is on disk, so running it again after a crash anywhere mends it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from diffprep_assets.energon_prepare.folder_metadata import write_if_changed
from diffprep_assets.energon_prepare.folders import (
    EnergonFolder,
    energon_folders,
    folder_layout,
    folder_of,
)
from diffprep_assets.energon_prepare.index import offsets_idx
from diffprep_assets.energon_prepare.metadata_files import (
    EmptyEncodings,
    idx_path,
    metadata_is_current,
    remove_empty_folder,
    remove_metadata,
    remove_other_metadata,
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
    """One shard of the plan: the split it belongs to, the record of its finished tar, and which of
    its samples are skipped, by sample_id, each with the rule that says so."""

    split: Split
    record: ShardRecord
    skipped: Mapping[int, str] = field(default_factory=dict)

    @property
    def num_served(self) -> int:
        """Samples that a trainer gets."""
        return self.record.num_samples - len(self.skipped)


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

    `nested` puts each bucket in its own folder, which the description's layout `per_bucket` makes a
    dataset of its own. With `finalize` false only tars are published; metadata that no longer
    describes them is taken down. The caller holds the dataset's lock. Raises SettingError when the
    output folder is another dataset's, StageInputError when a tar is missing, DiffprepError when
    there is nothing to train on.
    """
    refuse_nothing_to_train(layout, shards)
    before = load_state(layout)
    named = named_shards(
        layout, shards, state=before, base=lambda shard: base_name(shard.record, nested=nested)
    )
    state = planned_state(before, named)
    save_state(layout, state)
    _remove_leftovers(layout, state)
    added = tuple(shard.name for shard in named if put_shard(layout, shard))
    folders = energon_folders(named, per_bucket=description.layout == "per_bucket")
    if finalize:
        for shard in named:
            write_if_changed(idx_path(layout, shard.name), offsets_idx(shard))
        content = provenance(description, shards=named, rewrites=state.rewrites)
        state = _described(layout, state, folders, content, (empty, description.pictures))
    elif not metadata_is_current(layout, named, folders):
        remove_metadata(layout, names=list(state.files))
    removed = unlink_old(layout, state, named)
    save_state(layout, settled_state(layout, state, named))
    return Publication(named, added, removed)


def _described(
    layout: Layout,
    state: OutputState,
    folders: Sequence[EnergonFolder],
    content: Mapping[str, Any],
    extras: tuple[EmptyEncodings | None, bytes | None],
) -> OutputState:
    """The state once the metadata of every folder stands, and no other of ours."""
    empty, pictures = extras
    stamps = write_metadata(
        layout,
        folders=folders,
        content=content,
        empty=empty,
        index_stamps=state.index_stamps,
        pictures=pictures,
    )
    remove_other_metadata(layout, names=list(state.files), folders=folders)
    return replace(state, index_stamps=stamps)


def refuse_nothing_to_train(layout: Layout, shards: Sequence[FinishedShard]) -> None:
    """Raises DiffprepError where no sample was written, or where split train serves none."""
    written = [shard for shard in shards if shard.record.num_samples > 0]
    served = [shard for shard in written if shard.num_served > 0]
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
    if not any(shard.split == "train" for shard in served):
        skipped = sum(len(shard.skipped) for shard in written)
        raise DiffprepError(
            f"dataset {layout.dataset!r}: all of split train is skipped ({skipped} samples in all "
            f"splits), so that a trainer would get nothing; `diffprep unskip {layout.dataset}`, or "
            f"shorten the recipe's curate.skip_lists"
        )


def named_shards(
    layout: Layout,
    shards: Sequence[FinishedShard],
    *,
    state: OutputState,
    base: Callable[[FinishedShard], str],
) -> tuple[PublishedShard, ...]:
    """Every shard that has samples, with its name, sorted by it as `energon prepare` lists tars.
    `base` gives the name without rewrite count and suffix."""
    named: dict[str, PublishedShard] = {}
    for shard in shards:
        if shard.record.num_samples == 0:
            continue
        name = _name(layout, shard.record, state=state, base=base(shard))
        if name in named:
            raise ValueError(
                f"shards {named[name].record.shard} and {shard.record.shard} are both {name}"
            )
        samples = layout.shard_samples(shard.record.shard)
        named[name] = PublishedShard(name, shard.split, shard.record, samples, shard.skipped)
    return tuple(named[name] for name in sorted(named))


def _name(layout: Layout, record: ShardRecord, *, state: OutputState, base: str) -> str:
    source = layout.shard_file(record.shard)
    if stamp_of(source) is None:
        raise StageInputError(
            f"shard {record.shard}: {source} is missing; run `diffprep run {layout.dataset}`"
        )
    content = PublishedFile(record.digest, record.size_bytes)

    def fits(name: str) -> bool:
        path = layout.output_dir / name
        known = state.files[name]
        return not path.exists() or is_in_place(path, source=source, content=content, known=known)

    return choose_name(
        base,
        digest=record.digest,
        given=state.files,
        last_rewrites=state.rewrites.get(base),
        fits=fits,
        taken=lambda name: (layout.output_dir / name).exists(),
    )


def planned_state(state: OutputState, named: Sequence[PublishedShard]) -> OutputState:
    """The state with the new names added, and no old one forgotten."""
    files = dict(state.files)
    for shard in named:
        files.setdefault(shard.name, PublishedFile(shard.record.digest, shard.record.size_bytes))
    return replace(state, files=files, rewrites=highest_rewrites(files, known=state.rewrites))


def put_shard(layout: Layout, shard: PublishedShard) -> bool:
    """True when it had to be put under its name; a hard link, so nothing writes through it."""
    target = layout.output_dir / shard.name
    if target.exists():
        return False
    link_or_copy(layout.shard_file(shard.record.shard), target)
    return True


def unlink_old(
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


def settled_state(
    layout: Layout, state: OutputState, named: Sequence[PublishedShard]
) -> OutputState:
    """The state with only the current names, each with its stamps."""
    files = {
        shard.name: PublishedFile(
            shard.record.digest,
            shard.record.size_bytes,
            stamp=stamp_of(layout.output_dir / shard.name),
            source_stamp=stamp_of(layout.shard_file(shard.record.shard)),
        )
        for shard in named
    }
    return replace(state, files=files)


def _remove_leftovers(layout: Layout, state: OutputState) -> None:
    """Remove half-written files of a killed run from the folders that this dataset uses."""
    for name in {"", *(folder_of(name) for name in state.files)}:
        here = folder_layout(layout, name)
        for folder in (here.output_dir, here.nv_meta, here.published_empty_encodings):
            remove_leftovers(folder)
