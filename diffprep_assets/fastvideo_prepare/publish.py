"""The FastVideo output brought up to the finished shards, so that no reader ever sees a mixture.

    state saved       which names are ours, before one of them exists
    trees             one after the other, each swapped in whole (trees.py): validation, test, then
                      training; those that are as they should be are left alone, but for caches
    trees gone        of buckets and splits that hold nothing any more
    validation.json, clips.jsonl, their pictures; dataset.json, README.md
    state saved       only what is there now

Each step compares with what is on disk, so running it again after a crash anywhere mends it. A
skipped sample's row is left out of the files that are published: its shard, which is then another
content, gets another name, while the work keeps the row for the day that it is served again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from diffprep_assets.energon_prepare.card import MARKER, card
from diffprep_assets.energon_prepare.folder_metadata import write_if_changed
from diffprep_assets.energon_prepare.metadata_files import remove_pictures
from diffprep_assets.energon_prepare.names import (
    PublishedShard,
    choose_name,
    fastvideo_base_name,
)
from diffprep_assets.energon_prepare.output_state import (
    OutputState,
    PublishedFile,
    load_state,
    save_state,
)
from diffprep_assets.energon_prepare.provenance import (
    DatasetDescription,
    provenance,
    provenance_bytes,
    read_provenance,
)
from diffprep_assets.energon_prepare.publish import (
    FinishedShard,
    Publication,
    planned_state,
    refuse_nothing_to_train,
)
from diffprep_assets.fastvideo_prepare.trees import (
    ServedFile,
    folder_stamp,
    is_in_place,
    mend_swap,
    remove_caches,
    remove_tree,
    served_files,
    shard_files,
    swap_tree,
)
from diffprep_assets.fastvideo_prepare.validation_set import (
    ValidationClip,
    remove_validation_set,
    validation_clips,
    write_validation_set,
)
from diffprep_assets.freshness import digest_of
from diffprep_assets.layout import Layout
from diffprep_resources.encoders.base import Workload
from diffprep_resources.storage.atomic import remove_leftovers


@dataclass(frozen=True, slots=True)
class FastVideoFacts:
    """What dataset.json says under `fastvideo`. `nested`: each bucket has a folder of its own;
    `prompts` are the lines of clips.jsonl by published name, None where none is wanted."""

    workload: Workload
    train_fps: float
    samples_per_file: int
    nested: bool


def publish_fastvideo(
    layout: Layout,
    *,
    shards: Sequence[FinishedShard],
    description: DatasetDescription,
    facts: FastVideoFacts,
    finalize: bool = True,
) -> Publication:
    """What was published: every shard with samples, under a name that never held other content.

    With `finalize` false only the trees are published, and what describes them is taken down. The
    caller holds the dataset's lock. Raises SettingError when the output folder is another
    dataset's, StageInputError when a shard is missing, DiffprepError when there is nothing to
    train on.
    """
    refuse_nothing_to_train(layout, shards)
    before = load_state(layout)
    for tree in _trees(before.files):
        mend_swap(layout, tree, ours=_is_ours(before, tree))
    named = _named(layout, shards, state=before, nested=facts.nested)
    state = planned_state(before, named)
    save_state(layout, state)
    remove_leftovers(layout.output_dir)
    there = {name for name in state.files if (layout.output_dir / name).is_dir()}
    _switch_trees(layout, state, named, workload=facts.workload)
    if finalize:
        content = provenance(description, shards=named, rewrites=state.rewrites)
        content["fastvideo"] = _fastvideo(layout, named, facts)
        clips = validation_clips(layout, named, workload=facts.workload)
        _write_description(layout, content, clips, description.pictures)
    else:
        _remove_description(layout)
    current = {shard.name for shard in named}
    save_state(layout, _settled_state(layout, state, named))
    return Publication(named, tuple(sorted(current - there)), tuple(sorted(there - current)))


def _named(
    layout: Layout, shards: Sequence[FinishedShard], *, state: OutputState, nested: bool
) -> tuple[PublishedShard, ...]:
    """Every shard that has samples with its name, sorted by it. The digest of a shard of which rows
    are left out covers which."""
    named = []
    for shard in shards:
        if shard.record.num_samples == 0:
            continue
        record = shard.record
        if shard.skipped:
            digest = digest_of([record.digest, sorted(shard.skipped)])
            record = replace(record, digest=digest)
        base = fastvideo_base_name(record, split=shard.split, nested=nested)

        def fits(name: str, shard: FinishedShard = shard) -> bool:
            return not (layout.output_dir / name).exists() or is_in_place(
                layout,
                name,
                shard=shard.record.shard,
                known=state.files[name],
                whole=not shard.skipped,
            )

        name = choose_name(
            base,
            digest=record.digest,
            given=state.files,
            last_rewrites=state.rewrites.get(base),
            fits=fits,
            taken=lambda name: (layout.output_dir / name).exists(),
        )
        shard_files(layout, record.shard)
        samples = layout.shard_samples(record.shard)
        named.append(PublishedShard(name, shard.split, record, samples, shard.skipped))
    return tuple(sorted(named, key=lambda shard: shard.name))


def _switch_trees(
    layout: Layout, state: OutputState, named: Sequence[PublishedShard], *, workload: Workload
) -> None:
    """Every tree as it should be; training trees last, so that their validation is there first."""
    wanted: dict[str, list[PublishedShard]] = {}
    for shard in named:
        wanted.setdefault(_tree(shard.name), []).append(shard)
    for tree in sorted(wanted, key=lambda tree: (tree.endswith("training_dataset"), tree)):
        names = {shard.name for shard in wanted[tree]}
        there = {
            name
            for name in state.files
            if _tree(name) == tree and (layout.output_dir / name).is_dir()
        }
        remove_caches(layout.output_dir / tree)
        if there != names:
            # What stands at a name that was chosen for it is the right content.
            swap_tree(
                layout,
                tree,
                wanted[tree],
                in_place=there & names,
                ours=_is_ours(state, tree),
                workload=workload,
            )
    for tree in _trees(state.files) - wanted.keys():
        remove_tree(layout, tree, ours=_is_ours(state, tree))


def _fastvideo(
    layout: Layout, named: Sequence[PublishedShard], facts: FastVideoFacts
) -> dict[str, Any]:
    """What a training run reads: the trees, and every file with its digest."""
    before = (read_provenance(layout.dataset_json) or {}).get("fastvideo", {}).get("files", {})
    known = {name: ServedFile(name, **file) for name, file in before.items()}
    trees: dict[str, dict[str, Any]] = {}
    files: dict[str, Any] = {}
    for shard in named:
        record = shard.record
        tree = trees.setdefault(
            _tree(shard.name),
            {
                "split": shard.split,
                "width": record.width,
                "height": record.height,
                "num_frames": record.frames,
                "samples": 0,
            },
        )
        for file in served_files(layout, shard, known=known):
            tree["samples"] += file.num_rows
            files[file.name] = {k: v for k, v in asdict(file).items() if k != "name"}
    settings = {key: value for key, value in asdict(facts).items() if key != "nested"}
    return {**settings, "trees": trees, "files": files}


def _write_description(
    layout: Layout,
    content: Mapping[str, Any],
    clips: Sequence[ValidationClip],
    pictures: bytes | None,
) -> None:
    """validation.json, dataset.json, the card and its pictures; a card whose mark was removed stays
    as it is."""
    write_validation_set(layout, clips)
    write_if_changed(layout.dataset_json, provenance_bytes(content))
    if pictures is None:
        remove_pictures(layout)
    else:
        write_if_changed(layout.card_pictures, pictures)
    if not layout.card.exists() or MARKER.encode() in layout.card.read_bytes():
        shown = None if pictures is None else layout.card_pictures.name
        write_if_changed(layout.card, card(content, pictures=shown))


def _remove_description(layout: Layout) -> None:
    remove_validation_set(layout)
    layout.dataset_json.unlink(missing_ok=True)
    remove_pictures(layout)
    if layout.card.exists() and MARKER.encode() in layout.card.read_bytes():
        layout.card.unlink()


def _settled_state(
    layout: Layout, state: OutputState, named: Sequence[PublishedShard]
) -> OutputState:
    """The state with only the current names, each with its stamps."""
    files = {
        shard.name: PublishedFile(
            shard.record.digest,
            shard.record.size_bytes,
            stamp=folder_stamp(layout.output_dir / shard.name),
            source_stamp=folder_stamp(layout.shard_folder(shard.record.shard)),
        )
        for shard in named
    }
    return replace(state, files=files)


def _tree(name: str) -> str:
    return name.rpartition("/")[0]


def _trees(names: Mapping[str, Any]) -> set[str]:
    return {_tree(name) for name in names}


def _is_ours(state: OutputState, tree: str) -> Any:
    """Whether an entry of the tree is a name of ours."""
    return lambda entry: f"{tree}/{entry}" in state.files
