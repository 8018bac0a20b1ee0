"""From a few timed batches to the time of the stages that are still to run."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from diffprep_assets.plan_report.facts import StageTime
from diffprep_assets.plan_report.probe import ProbeSpec, ProbeTask, StageProbe, TimedBatches
from diffprep_assets.plan_report.sizes import Sizes
from diffprep_assets.plan_report.stored_sizes import PictureSizes
from diffprep_assets.plan_report.work import Made
from diffprep_assets.shard_plan.plan import Bucket, PlannedShard
from diffprep_resources.compute.base import unheard
from diffprep_resources.compute.local import LocalEngine


def probe_tasks(shards: Sequence[PlannedShard], *, stages: Collection[str]) -> list[ProbeTask]:
    """What to time of these stages: pictures of the bucket with most to do, and of the largest one,
    which decides the memory; captions and tars of the first."""
    work: dict[Bucket, int] = {}
    first: dict[Bucket, str] = {}
    for shard in shards:
        size = replace(shard.bucket, tier=0)
        work[size] = work.get(size, 0) + shard.num_samples * pixels_of(size)
        first.setdefault(size, shard.shard)
    most = max(work, key=lambda size: work[size])
    largest = max(work, key=lambda size: (pixels_of(size), work[size]))
    chosen = tuple(dict.fromkeys([first[most], first[largest]]))
    tasks = [
        ProbeTask("encode_latents", chosen),
        ProbeTask("encode_text", chosen[:1]),
        ProbeTask("encode_first_frame", chosen),
        ProbeTask("encode_clip", chosen[:1]),
        ProbeTask("shard", chosen[:1]),
    ]
    return [task for task in tasks if task.key in stages]


def probed(
    spec: ProbeSpec, tasks: Sequence[ProbeTask], *, device: str, told: Callable[[int], None]
) -> tuple[dict[str, StageProbe], str | None]:
    """By stage what the probe found, and why it stopped short, if it did; `told` of each stage.

    A process of its own dies alone where memory does not suffice.
    """
    found: dict[str, StageProbe] = {}
    try:
        for outcome in LocalEngine([device]).run(spec, tasks, report=unheard):
            if outcome.error is not None:
                return found, f"{outcome.key}: {outcome.error}"
            found[outcome.key] = outcome.result
            told(1)
    except ChildProcessError as error:
        return found, str(error)
    return found, None


class Estimate:
    """Seconds of the stages of shards over a plan."""

    def __init__(self, shards: Sequence[PlannedShard], made: Made, batch_size: int) -> None:
        self._shards = shards
        self._made = made
        self._batch_size = batch_size

    def latents(
        self, probe: StageProbe, workers: int, *, stage: str = "encode_latents"
    ) -> StageTime:
        """A batch takes as long as its pixels, by the timed bucket of the nearest size."""

        def seconds(shard: PlannedShard) -> float:
            pixels = pixels_of(shard.bucket)
            near = min(probe.timed, key=lambda timed: abs(timed.pixels - pixels))
            return self._batches(shard) * per_batch(near) * pixels / near.pixels

        return self._time(probe, workers, seconds, stage)

    def text(self, probe: StageProbe, workers: int, *, stage: str = "encode_text") -> StageTime:
        """Every caption is padded to the same length, so that each batch takes the same time; so
        it is with the features of first frames."""
        each = per_batch(probe.timed[0]) if probe.timed else 0.0
        return self._time(probe, workers, lambda shard: self._batches(shard) * each, stage)

    def tars(self, probe: StageProbe, workers: int, sizes: Sizes) -> StageTime:
        """By bytes."""
        each = per_batch(probe.timed[0])
        written = "energon" if sizes.recipe.video is None else "fastvideo"
        return self._time(
            probe, workers, lambda shard: sizes.shard(shard, format=written) * each, "shard"
        )

    def pictures(self, tried: PictureSizes, workers: int, *, stage: str) -> StageTime:
        """By pictures, as long as those that were stored for a try; `shard_raw` or `shard_mds`."""
        timed = TimedBatches(0, tried.tried, tried.tried, tried.tried_seconds)

        def seconds(shard: PlannedShard) -> float:
            return shard.num_samples * tried.seconds_of(shard.bucket)

        return self._time(StageProbe(timed=(timed,)), workers, seconds, stage)

    def _batches(self, shard: PlannedShard) -> int:
        return -(-shard.num_samples // self._batch_size)

    def _time(
        self,
        probe: StageProbe,
        workers: int,
        seconds: Callable[[PlannedShard], float],
        stage: str,
    ) -> StageTime:
        left = sum(seconds(s) for s in self._shards if stage not in self._made[s.shard])
        whole = sum(map(seconds, self._shards))
        return StageTime(
            seconds=(left / workers + probe.load_seconds) if left else 0.0,
            whole_seconds=whole / workers + probe.load_seconds,
            load_seconds=probe.load_seconds,
            timed=sum(timed.samples for timed in probe.timed),
            timed_seconds=sum(timed.seconds for timed in probe.timed),
            workers=workers,
        )


def pixels_of(bucket: Bucket) -> int:
    """Pixels of one sample, over all frames."""
    return bucket.width * bucket.height * (bucket.frames or 1)


def per_batch(timed: TimedBatches) -> float:
    """Seconds of one batch (or byte)."""
    return timed.seconds / max(1, timed.batches)
