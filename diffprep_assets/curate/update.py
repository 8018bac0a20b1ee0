"""The verdicts brought up to the parts' tables and the skip lists."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from diffprep_assets.curate.dedup import Duplicate
from diffprep_assets.curate.duplicate_pictures import DuplicatePictures
from diffprep_assets.curate.filters import Rejection, RuleFilters
from diffprep_assets.curate.inputs import asks_for_rules, curate_fingerprint, skip_files
from diffprep_assets.curate.part_rules import PartRows, PartRules, all_rows, source_values
from diffprep_assets.curate.plan_facts import keys_of_ids, written_keys
from diffprep_assets.curate.skip_files import read_skip_list
from diffprep_assets.curate.skips import SkipIndex, wanted_ids
from diffprep_assets.curate.source_types import source_types
from diffprep_assets.curate.table import Verdict, read_head, write_verdicts
from diffprep_assets.curate.where import parsed_where
from diffprep_assets.curate.where_values import where_values
from diffprep_assets.dataset import Dataset
from diffprep_assets.picture_hash.worker import finished_hashes, hash_task
from diffprep_assets.recipe.formats import needs_columns, needs_hashes
from diffprep_assets.recipe.stage_fields import columns_fields, curate_fields, hash_fields
from diffprep_assets.shard_plan.inputs import bucket_fingerprints
from diffprep_assets.source_columns.values import Plain, text_of
from diffprep_assets.source_columns.wanted import wanted_columns
from diffprep_assets.source_columns.worker import columns_are_of
from diffprep_assets.source_index.table import SourceIndex
from diffprep_assets.stage_inputs import missing_partitions

Rejections = dict[str, Rejection]


@dataclass(frozen=True, slots=True)
class CurateUpdate:
    """What curation came to: samples that `bucket` kept, and those of them that are left out, by
    code and by rule. `skip_lists` holds the counts of each list, by name (SkipCounts)."""

    digest: str
    samples: int
    codes: Counter[str]
    rules: Counter[str]
    skip_lists: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    changed: bool = True

    @property
    def rejected(self) -> int:
        return self.codes.total()


def update_curate(dataset: Dataset, index: SourceIndex) -> CurateUpdate:
    """The verdicts now on disk, over all parts.

    Raises StageInputError when a table that it reads is missing or stale, SettingError for a rule
    that cannot be applied to this source.
    """
    layout, parts = dataset.layout, list(index.parts.parts)
    _check_inputs(dataset, index)
    wanted = curate_fingerprint(dataset, parts)
    head = read_head(layout.curate)
    changed = head is None or head["fingerprint"] != wanted
    if changed:
        _write(dataset, parts, fingerprint=wanted)
        head = read_head(layout.curate)
    head = head or {}
    return CurateUpdate(
        digest=head["digest"],
        samples=head["samples"],
        codes=Counter(head["codes"]),
        rules=Counter(head["rules"]),
        skip_lists=head["skip_lists"],
        changed=changed,
    )


def _check_inputs(dataset: Dataset, index: SourceIndex) -> None:
    """Raises StageInputError for parts whose tables are missing or stale."""
    layout, recipe = dataset.layout, dataset.recipe
    parts = list(index.parts.parts)
    made_from = bucket_fingerprints(dataset, index)
    fresh = {part for part, (found, wanted) in made_from.items() if wanted and found == wanted}
    _require(dataset, "bucket", parts, fresh=fresh)
    if needs_columns(recipe):
        columns = columns_fields(recipe)
        fresh = {part for part in parts if columns_are_of(layout, part, settings=columns)}
        _require(dataset, "source_columns", parts, fresh=fresh)
    if needs_hashes(recipe):
        hashes = hash_fields(recipe)
        tasks = {part: hash_task(layout, part, settings=hashes) for part in parts}
        fresh = {part for part, task in tasks.items() if task and finished_hashes(layout, task)}
        _require(dataset, "picture_hash", parts, fresh=fresh)


def _require(dataset: Dataset, stage: str, parts: Sequence[str], *, fresh: set[str]) -> None:
    stale = [part for part in parts if part not in fresh]
    if stale:
        raise missing_partitions(dataset, stage, stale, unit="parts")


def _write(dataset: Dataset, parts: Sequence[str], *, fingerprint: str) -> None:
    layout = dataset.layout
    metadata: dict[str, Any] = {
        "fingerprint": fingerprint,
        "settings": curate_fields(dataset.recipe),
        "samples": sum(_num_kept(layout.bucket(part)) for part in parts),
        "skip_lists": {},
    }
    types: dict[str, pa.DataType] = {}
    if needs_columns(dataset.recipe):
        types = source_types(layout, parts, asked_by=wanted_columns(dataset.recipe))
    verdicts: Iterator[Verdict] = iter(())
    if asks_for_rules(dataset):
        curation = _Curation(dataset, types)
        curation.look_at(parts)
        metadata["skip_lists"] = curation.skip_counts()
        verdicts = curation.verdicts(parts)
    write_verdicts(layout.curate, verdicts, metadata=metadata)


def _num_kept(path: Path) -> int:
    """Samples of a bucket table without a code, by the table's statistics alone."""
    with pq.ParquetFile(path) as file:
        # Nested columns would count as several; none stands before this one.
        place = file.schema_arrow.names.index("code")
        groups = (file.metadata.row_group(n) for n in range(file.metadata.num_row_groups))
        return sum(group.column(place).statistics.null_count for group in groups)


class _Curation:
    """One look at all samples. Holds the rejected ones, and a row of each picture for dedup."""

    def __init__(self, dataset: Dataset, types: Mapping[str, pa.DataType]) -> None:
        self._dataset = dataset
        self._curate = dataset.recipe.curate
        self._types = types
        lists = {name: read_skip_list(path) for name, path in skip_files(dataset).items()}
        known = keys_of_ids(dataset.layout, wanted_ids(lists))
        self._skips = SkipIndex(lists, keys_of_ids=known)
        self._rejected: dict[str, Rejections] = {}
        self._duplicates: dict[str, Duplicate] = {}

    def look_at(self, parts: Sequence[str]) -> None:
        """Apply every rule. Must come before what it found is asked for."""
        layout, dedup = self._dataset.layout, self._curate.dedup
        pictures = None
        if dedup is not None:
            formats = self._dataset.recipe.output.formats
            written = written_keys([layout.of(format) for format in formats])
            pictures = DuplicatePictures(dedup, layout=layout, written=written)
        with ExitStack() as ended:
            rules = self._rules(ended)
            for part in parts:
                rows, by_list, by_filter = rules.of_part(part, all_rows(layout.bucket(part)))
                found = by_filter | by_list
                keys = rows.keys if found else []
                self._rejected[part] = {keys[place]: why for place, why in found.items()}
                if pictures is not None:
                    # With those that a list names: no copy comes in the place of one of them.
                    places = (n for n in range(len(rows.table)) if n not in by_filter)
                    pictures.add(rows, places)
        if pictures is not None:
            self._duplicates = pictures.found()

    def _rules(self, ended: ExitStack) -> PartRules:
        filters = self._curate.filters
        condition = parsed_where(filters.where) if filters.where is not None else None
        where = None if condition is None else ended.enter_context(where_values(condition))
        return PartRules(
            self._dataset.layout,
            skips=self._skips,
            filters=RuleFilters(filters),
            types=self._types,
            condition=condition,
            where=where,
        )

    def skip_counts(self) -> dict[str, Any]:
        return {name: asdict(counts) for name, counts in self._skips.counts().items()}

    def verdicts(self, parts: Sequence[str]) -> Iterator[Verdict]:
        """The verdicts in source order."""
        for part in parts:
            if self._rejected[part] or self._duplicates or self._curate.group_key:
                rows = all_rows(self._dataset.layout.bucket(part))
                yield from self._of_part(PartRows(part, rows.filter(rows.column("code").is_null())))

    def _of_part(self, rows: PartRows) -> Iterator[Verdict]:
        rejected = self._rejected[rows.part]
        for key, picture, value in zip(rows.keys, rows.groups, self._values(rows), strict=True):
            why = rejected.get(key)
            duplicate = self._duplicates.get(picture)
            if duplicate is not None and not duplicate.keep and why is None:
                why = Rejection("duplicate", duplicate.message or "", "dedup")
            group = None if value is None else f"key:{text_of(value)}"
            if group is None and duplicate is not None:
                group = f"dup:{duplicate.component}"
            if why is not None:
                yield Verdict(key, rows.part, False, why.code, why.message, why.rule, group)
            elif group is not None:
                yield Verdict(key, rows.part, True, group=group)

    def _values(self, rows: PartRows) -> Sequence[Plain]:
        """The value of group_key for each sample; None without one."""
        name = self._curate.group_key
        if name is None:
            return [None] * len(rows.table)
        columns = source_values(self._dataset.layout, rows, [name], types=self._types)
        return columns.column(name).to_pylist()
