"""The output folder of a format whose shards are tars, energon or raw, brought up to the plan."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import cast

from diffprep_assets.dataset import Dataset
from diffprep_assets.encode_text.worker import empty_caption_is_fresh
from diffprep_assets.energon_prepare.card_pictures import card_pictures
from diffprep_assets.energon_prepare.metadata_files import EmptyEncodings
from diffprep_assets.energon_prepare.names import Split
from diffprep_assets.energon_prepare.output_state import load_state, save_state
from diffprep_assets.energon_prepare.provenance import DatasetDescription
from diffprep_assets.energon_prepare.publish import FinishedShard, Publication, publish
from diffprep_assets.layout import Layout
from diffprep_assets.publishing.description import description_of
from diffprep_assets.publishing.finished import fresh_records
from diffprep_assets.publishing.left_formats import left_formats, left_sentence, note_in_card
from diffprep_assets.publishing.prepared import (
    is_published,
    published_fingerprint,
    write_prepared,
)
from diffprep_assets.publishing.tidy import tidy
from diffprep_assets.publishing.totals import SampleTotals, sample_totals
from diffprep_assets.recipe.formats import Format, has_several_buckets
from diffprep_assets.shard.record import ShardRecord, mark_bad_keys
from diffprep_assets.shard_plan.plan import PlannedShard
from diffprep_assets.shard_plan.skipped import skipped_by_shard
from diffprep_assets.source_index.table import SourceIndex, read_index
from diffprep_assets.stage_inputs import missing_whole_stage, shards_of_plan
from diffprep_resources.storage.parquet_tables import DamagedTableError
from diffprep_resources.storage.row_file import float32_rows

Publisher = Callable[[Dataset, Layout, Sequence[FinishedShard], DatasetDescription], Publication]


@dataclass(frozen=True, slots=True)
class Prepared:
    """What the output folder holds now. `rejects` are those of all stages, by code; `skipped` of
    the samples written are not served; `added` and `removed` count names that came and went;
    `notes` are sentences for whoever runs it."""

    fingerprint: str
    totals: SampleTotals
    skipped: int
    shards: int
    size_bytes: int
    added: int
    removed: int
    notes: tuple[str, ...] = ()

    @property
    def listed(self) -> int:
        return self.totals.listed

    @property
    def written(self) -> int:
        return self.totals.written

    @property
    def rejects(self) -> Counter[str]:
        return self.totals.rejects


def prepare(
    dataset: Dataset, *, format: Format = "energon", publisher: Publisher | None = None
) -> Prepared:
    """Publish every shard of the plan in the format, unless its output folder holds just that
    already. `publisher` is what does so; by default that of formats whose shards are tars.

    Raises StageInputError unless all shards are fresh, SettingError when the folder is another
    dataset's.
    """
    layout, ready = dataset.layout.of(format), _ready(dataset, format)
    wanted = published_fingerprint(dataset, ready.shards, format=format)
    publication = None
    if not is_published(dataset, format=format, wanted=wanted, records=ready.records):
        layout.prepared.unlink(missing_ok=True)
        with _damage_is_marked(layout):
            publication = _published(dataset, layout, ready, publisher or _publish_tars)
        write_prepared(dataset, ready.shards, ready.records, format=format)
    tidy(dataset, ready.shards, ready.records, format=format, index=ready.index)
    return Prepared(
        fingerprint=wanted,
        totals=ready.totals,
        skipped=ready.num_skipped,
        shards=sum(record.num_samples > 0 for record in ready.records),
        size_bytes=sum(record.size_bytes for record in ready.records),
        added=len(publication.added) if publication else 0,
        removed=len(publication.removed) if publication else 0,
        notes=tuple(_notes(dataset, format, ready)),
    )


@dataclass(frozen=True, slots=True)
class _Ready:
    """All that a publication is made of, found fresh. `skipped` gives by shard the samples of it
    that are not served, each with its rule."""

    shards: Sequence[PlannedShard]
    records: Sequence[ShardRecord]
    totals: SampleTotals
    index: SourceIndex
    skipped: Mapping[str, Mapping[int, str]]

    @property
    def num_skipped(self) -> int:
        return sum(len(rules) for rules in self.skipped.values())

    def finished(self) -> list[FinishedShard]:
        return [
            FinishedShard(cast(Split, shard.split), record, self.skipped.get(shard.shard, {}))
            for shard, record in zip(self.shards, self.records, strict=True)
        ]


def _ready(dataset: Dataset, format: Format) -> _Ready:
    layout = dataset.layout.of(format)
    shards = shards_of_plan(dataset)
    index = read_index(layout.source_index)
    if index is None:
        raise missing_whole_stage(dataset, "source_index")
    records = fresh_records(dataset, shards, format=format)
    totals = sample_totals(dataset, shards, records, index=index)
    found = skipped_by_shard(layout)
    skipped = {shard: {row.sample_id: row.rule for row in rows} for shard, rows in found.items()}
    return _Ready(shards, records, totals, index, skipped)


def _published(
    dataset: Dataset, layout: Layout, ready: _Ready, publisher: Publisher
) -> Publication:
    description = description_of(
        dataset, ready.shards, ready.totals, format=layout.format, index=ready.index
    )
    if dataset.recipe.output.finalize:
        pictures = card_pictures(dataset, ready.records, layout)
        description = replace(description, pictures=pictures)
    return publisher(dataset, layout, ready.finished(), description)


def _notes(dataset: Dataset, format: Format, ready: _Ready) -> Iterator[str]:
    """What the run should tell: skips that reach nobody; and, once for all formats, outputs that
    the recipe lists no more, whose cards are made to say so."""
    tells = format == "fastvideo" or dataset.recipe.output.finalize
    if ready.num_skipped and not tells:
        yield (
            f"{ready.num_skipped} samples are skipped, and with output.finalize false nothing is "
            f"published that tells a trainer: it gets them"
        )
    for left in left_formats(dataset) if format == dataset.layout.format else ():
        note_in_card(dataset, left)
        yield left_sentence(dataset, left)


def _publish_tars(
    dataset: Dataset,
    layout: Layout,
    finished: Sequence[FinishedShard],
    description: DatasetDescription,
) -> Publication:
    finalize = dataset.recipe.output.finalize
    return publish(
        layout,
        shards=finished,
        description=description,
        nested=has_several_buckets(dataset.recipe),
        empty=_empty_encodings(dataset) if finalize and layout.format == "energon" else None,
        finalize=finalize,
    )


@contextmanager
def _damage_is_marked(layout: Layout) -> Iterator[None]:
    """A shard whose rows turn out damaged is written anew by the next run."""
    try:
        yield
    except DamagedTableError as error:
        folder = error.path.parent
        if folder == layout.shards_folder:
            mark_bad_keys(layout.shard_bad(error.path.stem), [])
        elif folder.parent == layout.shards_folder:
            # A file of a FastVideo shard.
            mark_bad_keys(layout.shard_bad(folder.name), [])
        raise


def forget_published(layout: Layout) -> None:
    """The next prepare of the format looks at every published file, and writes the index again."""
    layout.prepared.unlink(missing_ok=True)
    save_state(layout, replace(load_state(layout), index_stamps={}))


def _empty_encodings(dataset: Dataset) -> EmptyEncodings:
    """The empty caption's encoding as float32, with a leading dimension of 1."""
    if not empty_caption_is_fresh(dataset.layout, dataset.empty_text_fingerprint):
        raise missing_whole_stage(dataset, "encode_text")
    rows = float32_rows(dataset.layout.empty_encodings, row=0)
    return EmptyEncodings(t5=rows["prompt_embeds"][None], clip=rows["pooled_prompt_embeds"][None])
