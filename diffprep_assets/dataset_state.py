"""A dataset's state by the small files beside it, without asking any model or server.

`status` looks closer: it knows what a run would redo. Here a changed path of a source or model
counts as a change, though what lies there may be the same.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from diffprep_assets.bucket.scan import stamp_digest
from diffprep_assets.changes import changed_settings, difference, plural
from diffprep_assets.curate.inputs import skip_files, verdicts_are_fresh
from diffprep_assets.curate.table import read_head
from diffprep_assets.dataset import Dataset
from diffprep_assets.dataset_locks import runs_that_died
from diffprep_assets.download.table import read_stamps
from diffprep_assets.energon_prepare.provenance import read_provenance
from diffprep_assets.last_failure import last_failure
from diffprep_assets.layout import Layout
from diffprep_assets.publishing.prepared import last_prepared, output_stamps
from diffprep_assets.recipe.resolved import NO_BYTES, NO_BYTES_SECTIONS
from diffprep_assets.recipe.stage_fields import published_fields
from diffprep_assets.shard_plan.plan import PlannedShard
from diffprep_assets.source_index.table import SourceIndex, read_index
from diffprep_assets.validate.update import last_validation
from diffprep_resources.errors import DiffprepError
from diffprep_resources.sources.remote import RemoteSource
from diffprep_resources.storage.locks import holder_of, is_held

StateName = Literal["fresh", "stale", "missing", "failed", "running", "broken", "no recipe"]


@dataclass(frozen=True, slots=True)
class DatasetState:
    """The state in a word, and what is not as it should be."""

    name: StateName
    why: tuple[str, ...] = ()


@dataclass(slots=True)
class FilesToLookAt:
    """How many source files may still be looked at: a long list of large datasets stays quick."""

    left: int

    def take(self, count: int) -> bool:
        """Whether there are that many left; they are taken then."""
        if count > self.left:
            return False
        self.left -= count
        return True


def dataset_state(
    dataset: Dataset, shards: list[PlannedShard], looks: FilesToLookAt
) -> DatasetState:
    """The state of a dataset whose plan has these shards. Opens no picture."""
    layout = dataset.layout
    for lock in (layout.run_lock, layout.dataset_lock):
        if is_held(lock):
            return DatasetState("running", (f"held by {holder_of(lock)}",))
    why = tuple(_stale(dataset, shards, looks)) if shards else ("never made",)
    failed = tuple(_failed(layout))
    if failed and why:
        return DatasetState("failed", failed)
    if not why:
        return DatasetState("fresh")
    return DatasetState("stale" if shards and _was_published(layout) else "missing", why)


def _was_published(layout: Layout) -> bool:
    return layout.prepared.exists() or read_provenance(layout.dataset_json) is not None


def _failed(layout: Layout) -> Iterator[str]:
    """What went wrong last, and was not done again since."""
    failed = last_failure(layout)
    if failed is not None:
        yield f"{failed.stage}: {failed.message} ({failed.at})"
    elif died := runs_that_died(layout):
        count = len(died)
        yield f"{count} {plural('run', count)} killed; the next one goes on from there"


def _stale(dataset: Dataset, shards: list[PlannedShard], looks: FilesToLookAt) -> Iterator[str]:
    yield from _changed_recipe(dataset)
    yield from _changed_source(dataset, looks)
    yield from _changed_lists(dataset)
    formats = dataset.recipe.output.formats
    for name in formats:
        for why in _stale_output(dataset.layout.of(name), shards):
            yield why if len(formats) == 1 else f"{name}: {why}"


def _stale_output(layout: Layout, shards: list[PlannedShard]) -> Iterator[str]:
    """What is not as it should be in one format."""
    yield from _unfinished(layout, shards)
    prepared, stamps = last_prepared(layout), output_stamps(layout)
    if prepared is None:
        yield "not published"
    elif prepared["files"] != stamps:
        yield "files of the output folder changed"
    validated = last_validation(layout)
    if prepared is not None and (validated is None or validated["files"] != stamps):
        yield "not validated as it is"


def _changed_recipe(dataset: Dataset) -> list[str]:
    """How the recipe differs from the one that made what is published."""
    content = read_provenance(dataset.layout.dataset_json)
    if content is not None:
        if content["recipe_hash"] == dataset.loaded.recipe_hash:
            return []
        before, now = (
            json.loads(json.dumps(r)) for r in (content["recipe"], dataset.loaded.resolved)
        )
        return changed_settings(_deciding(before), _deciding(now))
    prepared = last_prepared(dataset.layout)
    now = published_fields(dataset.loaded.resolved)
    return changed_settings(prepared["settings"], now) if prepared else []


def _deciding(resolved: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that decide bytes, by dotted name; where the output lies is none."""
    left_out = {*NO_BYTES, ("output", "output_dir")}
    return {
        f"{section}.{key}": value
        for section, values in resolved.items()
        if section not in NO_BYTES_SECTIONS
        for key, value in values.items()
        if (section, key) not in left_out
    }


def _changed_source(dataset: Dataset, looks: FilesToLookAt) -> Iterator[str]:
    """How local source files differ from those that were last taken in."""
    index = read_index(dataset.layout.source_index)
    source = dataset.source
    if index is None or isinstance(source, RemoteSource) or not looks.take(len(index.parts.files)):
        return
    before = _stamps_before(dataset.layout, index)
    try:
        paths = [file.path for file in source.listing().files]
    except DiffprepError as error:
        yield f"the source cannot be read: {error}"
        return
    if dataset.recipe.output.max_samples is not None:
        paths = [path for path in paths if path in before]
    now = {stamp.path: stamp_digest(stamp) for stamp in source.stamps(paths)}
    yield from difference(before, now).words("source file")


def _changed_lists(dataset: Dataset) -> Iterator[str]:
    """How the skip lists differ from those that the verdicts were made with. One is read only where
    it was written since."""
    head = read_head(dataset.layout.curate)
    if head is None:
        return
    lists, before = skip_files(dataset), set(head["skip_lists"])
    yield from (f"skip list {name} added" for name in sorted(lists.keys() - before))
    yield from (f"skip list {name} removed" for name in sorted(before - lists.keys()))
    made = dataset.layout.curate.stat().st_mtime_ns
    same = {name: path for name, path in lists.items() if name in before and path.is_file()}
    newer = [name for name, path in same.items() if path.stat().st_mtime_ns > made]
    index = read_index(dataset.layout.source_index) if newer else None
    if index is not None and not verdicts_are_fresh(dataset, index.parts.parts):
        yield f"skip {plural('list', len(newer))} {', '.join(newer)} changed"


def _stamps_before(layout: Layout, index: SourceIndex) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in index.parts.parts:
        if layout.download(part).exists():
            stamps = read_stamps(layout.download(part))
            found |= {stamp.path: stamp_digest(stamp) for stamp in stamps}
    return found


def _unfinished(layout: Layout, shards: list[PlannedShard]) -> Iterator[str]:
    """Shards of the plan that have no record or tar, and those found damaged."""
    folder = layout.shard_file("x").parent
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    missing = damaged = 0
    for shard in shards:
        key = shard.shard
        record, tar = layout.shard_record(key).name, layout.shard_file(key).name
        missing += not {record, tar} <= names
        damaged += layout.shard_bad(key).name in names
    if missing:
        yield f"{missing:,} of {len(shards):,} {plural('shard', len(shards))} not written"
    if damaged:
        yield f"{damaged:,} {plural('shard', damaged)} found damaged"
