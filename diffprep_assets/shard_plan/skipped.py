"""The samples that stay written and reach no trainer, and what they do to its data loader.

energon 7.4.1 cuts the samples of a split into as many stretches, of equal length, as there are data
loader workers over all ranks, in the order of the shards, and counts skipped ones too
(flavors/webdataset/sharder.py, split_samples_to_workers). A worker with nothing but skipped samples
looks for one for ever. A shard with nothing left is left out by name, and in no stretch.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

from diffprep_assets.dataset import Dataset
from diffprep_assets.layout import Layout
from diffprep_assets.quantities import share_text
from diffprep_assets.shard.record import read_record
from diffprep_assets.shard_plan.plan import PlannedShard
from diffprep_resources.storage.parquet_tables import has_table

USUAL_READERS = 64
"""8 ranks with 8 workers each: a machine of eight devices."""
MANY_SKIPPED = 0.1


@dataclass(frozen=True, slots=True)
class Skipped:
    """A sample of a written shard that no trainer should get, and the rule that says so."""

    sample_id: int
    key: str
    rule: str


@dataclass(frozen=True, slots=True)
class SkipSizes:
    """How much of the planned samples is skipped. `longest_run` of them lie side by side in split
    `run_split`; from `starved_readers` data loader workers over all ranks on, one may get nothing
    else. None where no run is left once shards with nothing to serve are."""

    samples: int
    skipped: int
    longest_run: int = 0
    run_split: str | None = None
    starved_readers: int | None = None


def skipped_by_shard(layout: Layout) -> dict[str, list[Skipped]]:
    """The skipped samples that the shards of the layout's format hold, by shard and sample_id.

    One that encoding or writing left out of a shard is a reject there, and not skipped.
    """
    found: dict[str, list[Skipped]] = {}
    for row in _skipped_rows(layout.shard_plan):
        skipped = Skipped(row["sample_id"], f"{row['sample_id']:010d}", row["skipped"])
        found.setdefault(row["shard"], []).append(skipped)
    held = {}
    for shard, rows in found.items():
        left_out = left_out_of(layout, shard)
        rest = [row for row in rows if row.sample_id not in left_out]
        if rest:
            held[shard] = rest
    return held


def skipped_keys(plan: Path) -> frozenset[str]:
    """Source keys of the plan's skipped samples; none when there is no plan."""
    return frozenset(row["source_key"] for row in _skipped_rows(plan))


def left_out_of(layout: Layout, shard: str) -> frozenset[int]:
    """Ids of the planned samples that the shard's file does not hold."""
    record = read_record(layout.shard_record(shard))
    return frozenset(reject.sample_id for reject in record.rejects) if record else frozenset()


def skip_sizes(dataset: Dataset, shards: Sequence[PlannedShard]) -> SkipSizes:
    """How much is skipped in these shards of the dataset's plan, and what that does to readers."""
    with_skips = [shard.shard for shard in shards if shard.num_skipped]
    flags = skip_flags(dataset.layout, with_skips) if with_skips else {}
    output = dataset.recipe.output
    sizes = sizes_of(shards, flags, per_bucket=output.layout == "per_bucket")
    # Our loader of MDS shards passes over skipped samples before it deals them to workers.
    return (
        sizes
        if {"energon", "raw", "energon_video"} & set(output.formats)
        else replace(sizes, starved_readers=None)
    )


def sizes_of(
    shards: Sequence[PlannedShard], flags: Mapping[str, Sequence[bool]], *, per_bucket: bool
) -> SkipSizes:
    """As skip_sizes; `flags` says of each sample of a shard with skips, by sample_id, whether it is
    skipped. With `per_bucket` each bucket is read by itself."""
    skipped = sum(shard.num_skipped for shard in shards)
    result = SkipSizes(sum(shard.num_samples for shard in shards), skipped)

    def read_together(shard: PlannedShard) -> tuple[str | int, ...]:
        return _reading_order(shard)[: 4 if per_bucket else 1]

    in_order = sorted(shards, key=_reading_order) if skipped else []
    for _, group in groupby(in_order, key=read_together):
        read = [shard for shard in group if shard.num_skipped < shard.num_samples]
        run = longest_run(_side_by_side(read, flags))
        if not run:
            continue
        readers = sum(shard.num_samples for shard in read) // (run + 1) + 1
        if result.starved_readers is None or readers < result.starved_readers:
            result = replace(
                result, longest_run=run, run_split=read[0].split, starved_readers=readers
            )
    return result


def longest_run(flags: Iterable[bool]) -> int:
    """How many True follow on each other at most."""
    return max((sum(1 for _ in run) for flag, run in groupby(flags) if flag), default=0)


def run_warning(sizes: SkipSizes, *, readers: int = USUAL_READERS) -> str | None:
    """What to know where a worker of so many `readers`, or of the usual number, may starve."""
    starved = sizes.starved_readers
    if starved is None or starved > max(readers, USUAL_READERS):
        return None
    run, split = sizes.longest_run, sizes.run_split
    where = f"{run:,} skipped samples lie side by side in {split}"
    if run == 1:
        where = f"{split} is small, and holds skipped samples"
    return (
        f"{where}: from {starved:,} data loader workers over all ranks on, one may get nothing "
        f"else, and energon then waits for ever. Read with fewer, or `diffprep rewrite` takes them "
        f"out of their shards"
    )


def share_warning(sizes: SkipSizes) -> str | None:
    """What to know where much is skipped."""
    if sizes.skipped <= MANY_SKIPPED * sizes.samples:
        return None
    return (
        f"{sizes.skipped:,} of {sizes.samples:,} samples "
        f"({share_text(sizes.skipped / sizes.samples)}) are written and skipped: they take room "
        f"and are read past. `diffprep rewrite` takes them out of their shards"
    )


def _reading_order(shard: PlannedShard) -> tuple[str | int, ...]:
    """By split, and within it as the published names are sorted."""
    bucket = shard.bucket
    size = (bucket.width, bucket.height, bucket.frames)
    return shard.split, bucket.tier, *size, shard.number


def _side_by_side(
    shards: Iterable[PlannedShard], flags: Mapping[str, Sequence[bool]]
) -> Iterator[bool]:
    """Whether each sample is skipped, in reading order; a shard without skips as one sample."""
    for shard in shards:
        yield from flags.get(shard.shard, (False,))


def skip_flags(layout: Layout, shards: Sequence[str]) -> dict[str, list[bool]]:
    """Whether each sample of these shards is skipped, by sample_id."""
    table = pq.read_table(
        layout.shard_plan,
        columns=["shard", "sample_id", "skipped"],
        filters=pc.field("shard").isin(shards),
    )
    found: dict[str, list[bool]] = {}
    left_out = {shard: left_out_of(layout, shard) for shard in shards}
    for row in table.to_pylist():
        if row["sample_id"] not in left_out[row["shard"]]:
            found.setdefault(row["shard"], []).append(row["skipped"] is not None)
    return found


def _skipped_rows(plan: Path) -> Iterator[dict[str, Any]]:
    """The plan's rows of skipped samples; none in a plan from before there were any."""
    if has_table(plan) and "skipped" in pq.read_schema(plan).names:
        table = pq.read_table(
            plan,
            columns=["shard", "sample_id", "skipped", "source_key"],
            filters=pc.field("skipped").is_valid(),
        )
        yield from table.to_pylist()
