"""A source looked at as the stages will read it: listed whole, a few hundred samples opened.

The look happens in a storage root of its own that is thrown away. Of large remote files only the
beginning is fetched.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

from diffprep_assets.bucket.scan import BucketRules, rows_of
from diffprep_assets.bucket.table import BucketRow
from diffprep_assets.dataset import Dataset
from diffprep_assets.recipe.schema import Captions, Image
from diffprep_assets.source_index.listing import listed_index
from diffprep_assets.source_index.parts import IndexedFile
from diffprep_assets.source_index.table import SourceIndex, write_index
from diffprep_assets.source_look.captions_at import caption_places, field_of_captions
from diffprep_assets.source_look.clip_settings import LOOKING, shown_size
from diffprep_assets.source_look.colors import unusual_colors
from diffprep_assets.source_look.fields import table_keys
from diffprep_resources.compute.base import unheard
from diffprep_resources.sources.file_kinds import Kind, counted_by_suffix, is_loose, kind_of
from diffprep_resources.sources.names import Media, split_suffix
from diffprep_resources.sources.peek import peek
from diffprep_resources.sources.remote import RemoteSource

MOST_SAMPLES = 300
MOST_REMOTE: dict[Kind, int] = {"pictures": 64, "clips": 8}
MOST_PACKED = 6
MOST_REMOTE_PACKED = 2
WHOLE_BYTES = 16 << 20
# A page of pictures is read whole or not at all, and is often a row group: a hundred pictures.
PEEK_BYTES = 96 << 20
NAMED = 5

DatasetOf = Callable[[Mapping[str, str]], Dataset]


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen. `samples` is exact unless `is_estimate`; `rows` are the samples opened, kept
    or rejected; `captions_at` counts pictures (or opened samples) by where their caption stands."""

    kind: Kind
    files: int
    opened_files: int
    samples: int
    is_estimate: bool
    rows: tuple[BucketRow, ...]
    suffixes: Mapping[str, int] = field(default_factory=dict)
    other_files: Mapping[str, int] = field(default_factory=dict)
    captions_at: Mapping[str, int] = field(default_factory=dict)
    without_caption: int = 0
    captions_looked_for: int = 0
    paired_twice: tuple[str, ...] = ()
    revision: str | None = None
    colors: Mapping[str, int] = field(default_factory=dict)
    data_format: Mapping[str, str] = field(default_factory=dict)
    media: Media = "pictures"

    @property
    def is_loose(self) -> bool:
        """Whether every file is a picture or clip itself."""
        return self.kind == self.media

    @property
    def kept(self) -> list[BucketRow]:
        """The samples that could be read, size and caption."""
        return [row for row in self.rows if row.code is None]

    @property
    def sizes(self) -> list[tuple[int, int]]:
        """Upright width and height, as shown, of every picture or clip that could be opened."""
        return [size for row in self.rows if (size := shown_size(row)) is not None]


def look_at(dataset_of: DatasetOf, *, first_table: Path | None, seed: int = 0) -> Look:
    """What the source holds. `dataset_of` gives the dataset for a `data_format`; `first_table` is
    the parquet file to learn the columns from, where it is on this machine.

    Raises SettingError or SourceAccessError where the source cannot be read.
    """
    media = dataset_of({}).field_keys.media
    keys = table_keys(first_table, media=media) if first_table else {}
    dataset = dataset_of(keys)
    index = listed_index(dataset, may_fetch=False)
    write_index(dataset.layout.source_index, index)
    files = [file for file in index.parts.files if file.present]
    kind = _kind(files, media)
    chosen = _seeded(files, kind, remote=files[0].remote is not None, seed=seed)
    peeked = _brought(dataset, chosen)
    if kind == "parquet" and not keys and files[0].remote is not None:
        keys = table_keys(_place(dataset, chosen[0]), media=media)
        dataset = dataset_of(keys)
    colors: Counter[str] = Counter()
    rows = list(_rows(dataset, chosen, peeked, colors))
    if kind != "parquet" and _most_lack_captions(rows):
        caption_key = field_of_captions(dataset, chosen, kind)
        if caption_key is not None:
            keys = {**keys, "caption_key": caption_key}
            dataset = dataset_of(keys)
            colors.clear()
            rows = list(_rows(dataset, chosen, peeked, colors))
    look = _look(dataset, index, chosen=chosen, peeked=peeked, rows=rows)
    return replace(look, colors=colors, data_format=keys)


def _kind(files: list[IndexedFile], media: Media) -> Kind:
    """What the files are; a table of clips may name them anything."""
    kind = kind_of(files[0].path)
    return kind if kind in ("parquet", "tar") else media


def _seeded(files: list[IndexedFile], kind: Kind, *, remote: bool, seed: int) -> list[IndexedFile]:
    if kind in ("pictures", "clips"):
        most = MOST_REMOTE[kind] if remote else MOST_SAMPLES
    else:
        most = MOST_REMOTE_PACKED if remote else MOST_PACKED
    if len(files) <= most:
        return files
    places = random.Random(seed).sample(range(len(files)), most)
    return [files[place] for place in sorted(places)]


def _brought(dataset: Dataset, files: Iterable[IndexedFile]) -> set[str]:
    """Fetches what is to be opened of a remote source; the paths of those fetched in part."""
    source = dataset.source
    if not isinstance(source, RemoteSource):
        return set()
    peeked = set()
    for file in files:
        listed = source.listed_file(file.path).file
        if not is_loose(file.path) and listed.size > WHOLE_BYTES:
            wanted = source.store.wanted(listed, revision=source.revision())
            peek(wanted, _place(dataset, file), most_bytes=PEEK_BYTES)
            peeked.add(file.path)
    paths = [file.path for file in files if file.path not in peeked]
    source.bring(list(source.stamps(paths)), report=unheard)
    return peeked


def _place(dataset: Dataset, file: IndexedFile) -> Path:
    return dataset.layout.downloaded_files(file.part) / file.path


def _rows(
    dataset: Dataset, files: list[IndexedFile], peeked: set[str], colors: Counter[str]
) -> Iterator[BucketRow]:
    """A row for each sample looked at, by the rules of `bucket` but for its sizes; counts what is
    unusual in `colors`."""
    rules = BucketRules(Image(), Captions(), LOOKING if dataset.recipe.video else None)
    per_file = -(-MOST_SAMPLES // len(files))
    for stamp in dataset.source.stamps(file.path for file in files):
        rows = []
        for sample in islice(dataset.source.samples([stamp]), per_file):
            rows.append(rows_of(sample, source=dataset.source, rules=rules, stamp="")[0])
            kind = unusual_colors(sample.image) if sample.image else None
            if kind is not None:
                colors[kind] += 1
        yield from _whole(rows) if stamp.path in peeked else rows


def _whole(rows: list[BucketRow]) -> list[BucketRow]:
    """The samples of a file of which only the beginning is here, less those that are cut."""
    for number, row in enumerate(rows):
        if row.code in ("unreadable_file", "truncated_archive"):
            return rows[:number][: max(1, number - 1)]
    return rows[:-1] if len(rows) > 1 else rows


def _most_lack_captions(rows: list[BucketRow]) -> bool:
    lacking = sum(row.code == "no_caption" for row in rows)
    return lacking > len(rows) / 2


def _look(
    dataset: Dataset,
    index: SourceIndex,
    *,
    chosen: list[IndexedFile],
    peeked: set[str],
    rows: list[BucketRow],
) -> Look:
    files = [file for file in index.parts.files if file.present]
    kind = _kind(files, dataset.field_keys.media)
    samples, is_estimate = _num_samples(dataset, files, chosen, peeked)
    places = caption_places(dataset, files, kind, rows=rows)
    missing = places.pop("", 0)
    return Look(
        kind=kind,
        files=len(files),
        opened_files=len(chosen),
        samples=samples,
        is_estimate=is_estimate,
        rows=tuple(rows),
        suffixes=counted_by_suffix(file.path for file in files),
        other_files=index.other_files,
        captions_at=places,
        without_caption=missing,
        captions_looked_for=sum(places.values()) + missing,
        paired_twice=_paired_twice(files) if kind in ("pictures", "clips") else (),
        media=dataset.field_keys.media,
        revision=index.revision,
    )


def _num_samples(
    dataset: Dataset, files: list[IndexedFile], chosen: list[IndexedFile], peeked: set[str]
) -> tuple[int, bool]:
    """Samples of all files, and whether that is an estimate from those that were opened."""
    known = [file.num_samples for file in files if file.num_samples is not None]
    if len(known) == len(files):
        return sum(known), False
    counted = []
    for file in chosen:
        count = dataset.source.num_samples(file.path)
        cut = file.path in peeked and kind_of(file.path) == "tar"
        size = file.remote.size if file.remote else 0
        counted.append(count * size // PEEK_BYTES if cut else count)
    exact = len(chosen) == len(files) and not peeked
    return (sum(counted) if exact else sum(counted) * len(files) // len(chosen)), not exact


def _paired_twice(files: list[IndexedFile]) -> tuple[str, ...]:
    """Stems that several pictures have, so that they share one caption."""
    counts = Counter(split_suffix(file.path)[0] for file in files)
    return tuple(sorted(stem for stem, count in counts.items() if count > 1))
