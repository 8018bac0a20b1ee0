"""The output folder brought up to the plan."""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

import pyarrow.parquet as pq

from diffprep_assets.dataset import Dataset
from diffprep_assets.download.worker import release_downloads, remove_gone
from diffprep_assets.encode_text.worker import empty_caption_is_fresh
from diffprep_assets.energon_prepare.card_pictures import card_pictures
from diffprep_assets.energon_prepare.metadata_files import EmptyEncodings
from diffprep_assets.energon_prepare.names import Split
from diffprep_assets.energon_prepare.output_state import load_state, save_state
from diffprep_assets.energon_prepare.provenance import DatasetDescription
from diffprep_assets.energon_prepare.publish import FinishedShard, publish
from diffprep_assets.freshness import digest_of, fingerprint
from diffprep_assets.layout import Layout
from diffprep_assets.leftovers import remove_all_leftovers
from diffprep_assets.recipe.stage_fields import published_fields
from diffprep_assets.rejects import Reject, bucket_rejects, write_rejects
from diffprep_assets.shard.record import ShardRecord, mark_bad_keys, read_record
from diffprep_assets.shard.worker import finished_tar, shard_task
from diffprep_assets.shard_plan.plan import PlannedShard
from diffprep_assets.shard_plan.table import read_head as read_plan_head
from diffprep_assets.source_index.table import SourceIndex, read_index
from diffprep_assets.stage_inputs import missing_partitions, missing_whole_stage, shards_of_plan
from diffprep_resources.errors import DiffprepError
from diffprep_resources.storage.atomic import write_bytes
from diffprep_resources.storage.parquet_tables import DamagedTableError
from diffprep_resources.storage.row_file import float32_rows


@dataclass(frozen=True, slots=True)
class Prepared:
    """What the output folder holds now. `rejects` are those of all stages, by code; `added` and
    `removed` count names that came and went."""

    fingerprint: str
    listed: int
    written: int
    rejects: Counter[str]
    shards: int
    size_bytes: int
    added: int
    removed: int


def prepare(dataset: Dataset) -> Prepared:
    """Publish every shard of the plan, unless the output folder holds just that already.

    Raises StageInputError unless all shards are fresh, SettingError when the folder is another
    dataset's.
    """
    layout = dataset.layout
    shards = shards_of_plan(dataset)
    index = read_index(layout.source_index)
    if index is None:
        raise missing_whole_stage(dataset, "source_index")
    records = _fresh_records(dataset, shards)
    tables = [(part, layout.bucket(part)) for part in index.parts.parts]
    gone = [part for part, path in tables if not path.exists()]
    if gone:
        raise missing_partitions(dataset, "bucket", gone, unit="parts")
    listed = sum(pq.read_metadata(path).num_rows for _, path in tables)
    rejects = write_rejects(layout.rejects, _all_rejects(tables, shards, records))
    written = sum(record.num_samples for record in records)
    check_counts(dataset.name, listed=listed, written=written, rejects=rejects)
    wanted = published_fingerprint(dataset, shards)
    added = removed = 0
    last = last_prepared(layout)
    tars = {record.shard: record.digest for record in records}
    now = {"fingerprint": wanted, "files": output_stamps(layout), "tars": tars}
    if last is None or {name: last.get(name) for name in now} != now:
        layout.prepared.unlink(missing_ok=True)
        finalize = dataset.recipe.output.finalize
        with _damage_is_marked(layout):
            publication = publish(
                layout,
                shards=[
                    FinishedShard(cast(Split, shard.split), record)
                    for shard, record in zip(shards, records, strict=True)
                ],
                description=replace(
                    _description(dataset, index, listed=listed, rejects=rejects),
                    pictures=card_pictures(dataset, records) if finalize else None,
                ),
                nested=dataset.recipe.image.mode != "image_size",
                empty=_empty_encodings(dataset) if finalize else None,
                finalize=finalize,
            )
        added, removed = len(publication.added), len(publication.removed)
        content = {
            "fingerprint": wanted,
            "files": output_stamps(layout),
            "tars": tars,
            "settings": published_fields(dataset.loaded.resolved),
            "shards": {shard.shard: dataset.shard_fingerprint(shard) for shard in shards},
        }
        write_bytes(layout.prepared, json.dumps(content, sort_keys=True).encode())
    remove_orphans(dataset, records)
    remove_gone(layout, index)
    if not dataset.recipe.source.keep_downloads:
        release_downloads(layout)
    return Prepared(
        fingerprint=wanted,
        listed=listed,
        written=written,
        rejects=rejects,
        shards=sum(record.num_samples > 0 for record in records),
        size_bytes=sum(record.size_bytes for record in records),
        added=added,
        removed=removed,
    )


@contextmanager
def _damage_is_marked(layout: Layout) -> Iterator[None]:
    """A shard whose rows turn out damaged is written anew by the next run."""
    try:
        yield
    except DamagedTableError as error:
        if error.path.parent == layout.shard_samples("x").parent:
            mark_bad_keys(layout.shard_bad(error.path.stem), [])
        raise


def check_counts(dataset: str, *, listed: int, written: int, rejects: Counter[str]) -> None:
    """Raises DiffprepError unless every sample of the bucket tables is written or rejected."""
    rejected = sum(rejects.values())
    if listed != written + rejected:
        raise DiffprepError(
            f"{dataset}: the counts do not add up: {listed} samples listed by bucket, but "
            f"{written} written and {rejected} rejected {dict(sorted(rejects.items()))}; nothing "
            f"was published. Run `diffprep run {dataset}`; if it says the same, this is a fault of "
            f"diffprep"
        )


def output_stamps(layout: Layout) -> dict[str, list[int]]:
    """Size in bytes and mtime in ns of every file of the output folder, by name."""
    if not layout.output_dir.is_dir():
        return {}
    return {
        path.relative_to(layout.output_dir).as_posix(): [stat.st_size, stat.st_mtime_ns]
        for path in sorted(layout.output_dir.rglob("*"))
        if path.is_file() and (stat := path.stat())
    }


def published_fingerprint(dataset: Dataset, shards: list[PlannedShard]) -> str:
    """The fingerprint of the output folder that holds these shards."""
    content = [[shard.shard, shard.split, dataset.shard_fingerprint(shard)] for shard in shards]
    return fingerprint(
        "energon_prepare",
        settings=published_fields(dataset.loaded.resolved),
        inputs={"shard": digest_of(content), "empty": dataset.empty_text_fingerprint},
    )


def last_prepared(layout: Layout) -> dict[str, Any] | None:
    """What was last published whole: fingerprint, files, settings, shards; None if nothing."""
    try:
        return json.loads(layout.prepared.read_bytes())
    except (FileNotFoundError, ValueError):
        return None


def forget_published(layout: Layout) -> None:
    """The next `energon_prepare` looks at every published file, and writes the index again."""
    layout.prepared.unlink(missing_ok=True)
    save_state(layout, replace(load_state(layout), index_stamps={}))


def remove_orphans(dataset: Dataset, records: list[ShardRecord]) -> None:
    """Remove what nothing needs once the plan is published: files of shards that it no longer
    holds, with `intermediates: prune` the rows that are in tars, and what killed runs left half
    written. The caller holds the dataset's lock alone."""
    layout = dataset.layout
    prune = dataset.recipe.output.intermediates == "prune"
    shards = {record.shard for record in records}
    encoded = {record.shard for record in records if record.rejects or not prune}
    folders = {
        layout.latents("x").parent: {layout.latents(shard).name for shard in encoded},
        layout.text("x").parent: {
            layout.empty_encodings.name,
            *(layout.text(shard).name for shard in encoded),
        },
        layout.shard_tar("x").parent: {
            path(shard).name
            for shard in shards
            for path in (
                layout.shard_tar,
                layout.shard_samples,
                layout.shard_record,
                layout.shard_bad,
            )
        },
    }
    remove_all_leftovers(layout)
    for folder, kept in folders.items():
        if folder.is_dir():
            for path in folder.iterdir():
                if path.name not in kept:
                    path.unlink(missing_ok=True)


def _fresh_records(dataset: Dataset, shards: list[PlannedShard]) -> list[ShardRecord]:
    layout = dataset.layout
    records = []
    stale = []
    for shard in shards:
        record = read_record(layout.shard_record(shard.shard))
        if record is None or finished_tar(layout, shard_task(dataset, shard)) is None:
            stale.append(shard.shard)
        else:
            records.append(record)
    if stale:
        raise missing_partitions(dataset, "shard", stale, unit="shards")
    return records


def _all_rejects(
    tables: list[tuple[str, Path]], shards: list[PlannedShard], records: list[ShardRecord]
) -> Iterator[Reject]:
    yield from bucket_rejects(tables)
    for shard, record in zip(shards, records, strict=True):
        for reject in record.rejects:
            row = {key: value for key, value in asdict(reject).items() if key != "fingerprint"}
            yield Reject(**row, shard=shard.shard)


def _description(
    dataset: Dataset, index: SourceIndex, *, listed: int, rejects: Counter[str]
) -> DatasetDescription:
    head = read_plan_head(dataset.layout.shard_plan) or {}
    return DatasetDescription(
        dataset=dataset.name,
        recipe=dataset.loaded.resolved,
        recipe_hash=dataset.loaded.recipe_hash,
        models={role: _model(identity) for role, identity in dataset.identities.items()},
        latents_scale=dataset.encoders.latents_scale,
        source_revision=index.revision,
        listed=listed,
        rejects=rejects,
        generation=head["state"]["generation"],
        fingerprints={"source_index": index.fingerprint, "shard_plan": head["digest"]},
    )


def _model(identity: Any) -> dict[str, Any]:
    return {**asdict(identity), "fingerprint": identity.fingerprint}


def _empty_encodings(dataset: Dataset) -> EmptyEncodings:
    """The empty caption's encoding as float32, with a leading dimension of 1."""
    if not empty_caption_is_fresh(dataset.layout, dataset.empty_text_fingerprint):
        raise missing_whole_stage(dataset, "encode_text")
    rows = float32_rows(dataset.layout.empty_encodings, row=0)
    return EmptyEncodings(t5=rows["prompt_embeds"][None], clip=rows["pooled_prompt_embeds"][None])
