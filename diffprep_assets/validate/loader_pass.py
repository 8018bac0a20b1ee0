"""A real pass through energon's loader, counted: it skips a sample that raises without a word."""

import contextlib
import io
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from diffprep_assets.validate.metadata import DatasetFolder
from diffprep_assets.validate.report import Check, Failure
from diffprep_resources.compute.base import Report, unheard

if TYPE_CHECKING:
    from megatron.energon.source_info import SourceInfo

BATCH_SIZE = 8


@dataclass(slots=True)
class Pass:
    """What came out of the loader: samples by shard and by latents' shape, and what raised.

    `read` counts by shard what was read, also what never became a batch since the loader stopped.
    """

    report: Report = unheard
    read: Counter[str] = field(default_factory=Counter)
    by_shard: Counter[str] = field(default_factory=Counter)
    by_shape: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)

    def add(self, batch: Mapping[str, Any]) -> None:
        shape = tuple(batch["latents"].shape[1:])
        self.by_shape["x".join(str(side) for side in shape)] += len(batch["__key__"])
        self.by_shard.update(source.shard_name for source in batch["__sources__"])
        self.report(len(batch["__key__"]))

    def note(
        self, error: Exception, sample: object, sources: "Sequence[SourceInfo] | None"
    ) -> None:
        """An error handler for energon: the sample that raised, and why."""
        key = sample.get("__key__") if isinstance(sample, dict) else None
        shard = sources[0].shard_name if sources else None
        self.read[shard or ""] += 1
        self.failures.append(Failure(f"the task encoder raised: {error}", shard, key))


def loader_check(
    folder: DatasetFolder, *, expected: Mapping[str, int], report: Report = unheard
) -> tuple[Check, Pass]:
    """Every split read once with our task encoder, its samples counted by shard."""
    seen = Pass(report)
    for split, names in folder.splits.items():
        here = [name for name in names if expected.get(name, 0) > 0]
        if not here:
            continue
        before = len(seen.failures)
        stopped = _read_split(folder, split, seen)
        short = [name for name in here if seen.by_shard[name] != expected[name]]
        if stopped is not None:
            # Shards are read in order, each to its end: the first not read whole is where it was.
            shard = next((name for name in here if seen.read[name] < expected[name]), None)
            seen.failures.append(Failure(f"the loader stopped: {stopped}", shard))
        elif len(seen.failures) == before:
            seen.failures += [
                Failure(
                    f"the loader yielded {seen.by_shard[name]} of {expected[name]} samples", name
                )
                for name in short
            ]
    total, wanted = seen.by_shard.total(), sum(expected.values())
    message = f"{total:,} of {wanted:,} samples came out of energon's loader"
    return Check("loader", message, tuple(seen.failures)), seen


def expected_samples(folder: DatasetFolder, excluded: Mapping[str, int]) -> dict[str, int]:
    """Samples that a pass must yield, by shard; `excluded` are those that split.yaml names."""
    return {
        name: (count or 0) - excluded.get(name, 0)
        for name, count in folder.counts.items()
        if name not in folder.exclude
    }


def _read_split(folder: DatasetFolder, split: str, seen: Pass) -> str | None:
    """What ended the pass early; None when it went through. Energon prints, so that is caught."""
    from megatron.energon import WorkerConfig, get_loader, get_val_dataset, stateless

    from diffprep_resources.trainers.energon import PreencodedSample, PreencodedTaskEncoder

    class CountingTaskEncoder(PreencodedTaskEncoder):
        __default_failure_tolerance__ = 0

        @stateless
        def encode_sample(self, sample: PreencodedSample) -> PreencodedSample:
            seen.read.update(source.shard_name for source in sample.__sources__ or ())
            return sample

    workers = WorkerConfig(rank=0, world_size=1, num_workers=0, global_error_handler=seen.note)
    try:
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # pinned memory without a GPU
            dataset = get_val_dataset(
                folder.layout.output_dir,
                split_part=split,
                worker_config=workers,
                batch_size=BATCH_SIZE,
                task_encoder=CountingTaskEncoder(),
            )
            for batch in get_loader(dataset, watchdog_timeout_seconds=None):
                seen.add(batch)
    except Exception as error:  # whatever energon meets is the finding
        return f"{type(error).__name__}: {error}".splitlines()[0]
    return None
