"""A real pass through energon's loader, counted: it skips a sample that raises without a word."""

import contextlib
import gc
import io
import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diffprep_assets.energon_prepare.folders import folder_layout
from diffprep_assets.validate.metadata import DatasetFolder
from diffprep_assets.validate.report import Check, Failure
from diffprep_resources.compute.base import Report, unheard

if TYPE_CHECKING:
    from megatron.energon.source_info import SourceInfo

BATCH_SIZE = 8
# A dataset of so many samples is read whole in any case: it takes seconds.
SMALL = 2000
# Shards of an earlier validation that are read once more.
READ_AGAIN = 8
# What a batch holds, by encoding.
HOLDS = {"preencoded": "latents", "preencoded_video": "latents", "raw": "images"}


@dataclass(slots=True)
class Pass:
    """What came out of the loader: samples by shard and by shape, and what raised. `holds` names
    the batch's tensor whose shape is counted, `bucket` the folder that is being read.

    `read` counts by shard what was read, also what never became a batch since the loader stopped.
    """

    report: Report = unheard
    holds: str = "latents"
    exclude: frozenset[str] = frozenset()
    bucket: str = ""
    read: Counter[str] = field(default_factory=Counter)
    by_shard: Counter[str] = field(default_factory=Counter)
    by_shape: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)

    def add(self, batch: Mapping[str, Any]) -> None:
        shape = tuple(batch[self.holds].shape[1:])
        self.by_shape["x".join(str(side) for side in shape)] += len(batch["__key__"])
        for key, shard in zip(batch["__key__"], self.shards_of(batch["__sources__"]), strict=True):
            self.by_shard[shard] += 1
            if shard in self.exclude or f"{shard}/{key}" in self.exclude:
                self.failures.append(Failure("split.yaml excludes it, and it came out", shard, key))
        self.report(len(batch["__key__"]))

    def shards_of(self, sources: "Iterable[SourceInfo]") -> list[str]:
        """The shards that samples came from, named from the output folder."""
        prefix = f"{self.bucket}/" if self.bucket else ""
        return [f"{prefix}{source.shard_name}" for source in sources]

    def note(
        self, error: Exception, sample: object, sources: "Sequence[SourceInfo] | None"
    ) -> None:
        """An error handler for energon: the sample that raised, and why."""
        key = sample.get("__key__") if isinstance(sample, dict) else None
        shard = next(iter(self.shards_of(sources or ())), None)
        self.read[shard or ""] += 1
        self.failures.append(Failure(f"the task encoder raised: {error}", shard, key))


def loader_check(
    folder: DatasetFolder, *, expected: Mapping[str, int], report: Report = unheard
) -> tuple[Check, Pass]:
    """Our task encoder's pass over every split, its samples counted by shard, none of them one that
    is excluded. `expected` says how many must come of which shards; others are not read."""
    seen = Pass(report, HOLDS[folder.encoding], folder.exclude)
    for bucket in folder.buckets:
        seen.bucket = bucket
        for split, names in folder.splits.items():
            _read_split(folder, split, folder.in_bucket(bucket, names), expected, seen)
    if folder.buckets != ("",):
        seen.failures += _metadataset_failures(folder, seen)
    total, wanted = seen.by_shard.total(), sum(expected.values())
    message = f"{total:,} of {wanted:,} samples came out of energon's loader"
    if len(expected) < len(_readable(folder, folder.counts)):
        message += f", of {len(expected):,} shards; the others were read by an earlier validation"
    return Check("loader", message, tuple(seen.failures)), seen


def excluded_samples(folder: DatasetFolder, excluded: Mapping[str, int]) -> dict[str, int]:
    """Samples that split.yaml leaves out, by shard: all of one that it names, else those of
    `excluded`."""
    return {
        name: (count or 0) if name in folder.exclude else excluded.get(name, 0)
        for name, count in folder.counts.items()
    }


def expected_samples(folder: DatasetFolder, excluded: Mapping[str, int]) -> dict[str, int]:
    """Samples that a pass must yield, by shard; `excluded` are those that split.yaml names."""
    return {
        name: (folder.counts[name] or 0) - excluded.get(name, 0)
        for name in _readable(folder, folder.counts)
    }


def to_read(
    expected: Mapping[str, int], known: Collection[str], *, excluded: Mapping[str, int]
) -> dict[str, int]:
    """Which of the shards a pass should read when those `known` were read before: all of a small
    dataset; of a large one those that are new, and some of the known ones, first those that
    samples are excluded of. So a skip takes seconds, however large the dataset."""
    new = {name: count for name, count in expected.items() if name not in known}
    if len(new) == len(expected) or sum(expected.values()) <= SMALL:
        return dict(expected)
    rest = [name for name in expected if name not in new]
    touched = [name for name in rest if excluded.get(name)] or rest
    again = set(touched[:: -(-len(touched) // READ_AGAIN)])
    return {name: count for name, count in expected.items() if name in new or name in again}


def _readable(folder: DatasetFolder, names: Iterable[str]) -> list[str]:
    """The shards that energon opens: all but those that are excluded by name."""
    return [name for name in names if name not in folder.exclude]


def _read_split(
    folder: DatasetFolder,
    split: str,
    names: Sequence[str],
    expected: Mapping[str, int],
    seen: Pass,
) -> None:
    """Adds what energon yields of those shards of one split that anything is expected of."""
    here = [name for name in names if expected.get(name, 0) > 0]
    before = len(seen.failures)
    stopped = None
    for part in _parts(folder, split, names, expected):
        stopped = stopped or _read(folder, part, seen)
    if stopped is not None:
        # Shards are read in order, each to its end: the first not read whole is where it was.
        shard = next((name for name in here if seen.read[name] < expected[name]), None)
        seen.failures.append(Failure(f"the loader stopped: {stopped}", shard))
    elif len(seen.failures) == before:
        seen.failures += [
            Failure(f"the loader yielded {seen.by_shard[name]} of {expected[name]} samples", name)
            for name in here
            if seen.by_shard[name] != expected[name]
        ]


@dataclass(frozen=True, slots=True)
class _Part:
    """Places `start` to `end` among the samples of a split, in the order of its shards; all of them
    where `end` is None."""

    split: str
    start: int = 0
    end: int | None = None


def _parts(
    folder: DatasetFolder, split: str, names: Sequence[str], expected: Mapping[str, int]
) -> Iterator[_Part]:
    """The runs of shards that something is expected of; the whole split, where that is all."""
    readable = _readable(folder, names)
    wanted = [expected.get(name, 0) > 0 for name in readable]
    if all(name in expected or name not in folder.counts for name in readable):
        if any(wanted):
            yield _Part(split)
        return
    start, place = None, 0
    for name, is_wanted in zip(readable, wanted, strict=True):
        if start is not None and not is_wanted:
            yield _Part(split, start, place)
            start = None
        if start is None and is_wanted:
            start = place
        place += folder.counts[name] or 0
    if start is not None:
        yield _Part(split, start, place)


def _read(folder: DatasetFolder, part: _Part, seen: Pass) -> str | None:
    """What ended the pass early; None when it went through."""
    path = folder_layout(folder.layout, seen.bucket).output_dir
    try:
        for batch in _batches(folder, path, part, seen):
            seen.add(batch)
    except Exception as error:  # whatever energon meets is the finding
        return f"{type(error).__name__}: {error}".splitlines()[0]
    return None


def _metadataset_failures(folder: DatasetFolder, seen: Pass) -> Iterator[Failure]:
    """What energon meets when it opens metadataset.yaml: one batch of every split that serves."""
    path = folder.layout.metadataset
    served = {
        split: any(seen.by_shard[name] for name in names) for split, names in folder.splits.items()
    }
    for split in (split for split, any_served in served.items() if any_served):
        opening = Pass(holds=seen.holds)
        try:
            batches = list(islice(_batches(folder, path, _Part(split), opening), 1))
        except Exception as error:  # whatever energon meets is the finding
            yield Failure(f"{path.name}, {split}: {type(error).__name__}: {error}".splitlines()[0])
            continue
        if not batches:
            yield Failure(f"{path.name} yields nothing of {split}")


def _batches(
    folder: DatasetFolder, path: Path, part: _Part, seen: Pass
) -> Iterator[Mapping[str, Any]]:
    """Energon's own batches of the dataset at `path`. It prints, so that is caught."""
    from megatron.energon import Sample, WorkerConfig, get_loader, get_val_dataset, stateless

    from diffprep_resources.trainers.energon import (
        PreencodedTaskEncoder,
        PreencodedVideoTaskEncoder,
        RawTaskEncoder,
    )

    encoders = {
        "preencoded": PreencodedTaskEncoder,
        "preencoded_video": PreencodedVideoTaskEncoder,
        "raw": RawTaskEncoder,
    }

    class CountingTaskEncoder(encoders[folder.encoding]):
        __default_failure_tolerance__ = 0

        @stateless
        def encode_sample(self, sample: Sample) -> Sample:
            seen.read.update(seen.shards_of(sample.__sources__ or ()))
            return sample

    workers = WorkerConfig(rank=0, world_size=1, num_workers=0, global_error_handler=seen.note)
    source: Any = path if part.end is None else _subset(path, part)
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # pinned memory without a GPU
        dataset = get_val_dataset(
            source,
            split_part=part.split,
            worker_config=workers,
            batch_size=BATCH_SIZE,
            task_encoder=CountingTaskEncoder(),
        )
        # Energon collects garbage twice for each dataset that it opens (7.4.1, savable_loader.py,
        # gc_dataset.py): half a second over all that is imported, and there may be a hundred
        # buckets. What is frozen is left out; energon unfreezes when it is through.
        gc.freeze()
        try:
            yield from get_loader(dataset, watchdog_timeout_seconds=None)
        finally:
            gc.unfreeze()


def _subset(path: Path, part: _Part) -> dict[str, Any]:
    """A metadataset of one run of samples, as energon takes it without a file."""
    reference = {"path": str(path.resolve()), "subset": {"range": [part.start, part.end]}}
    return {
        "__module__": "megatron.energon",
        "__class__": "MetadatasetV2",
        "splits": {part.split: reference},
    }
