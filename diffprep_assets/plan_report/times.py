"""From a few timed batches to the time of the stages that are still to run."""

from collections.abc import Callable, Mapping, Sequence

from diffprep_assets.plan_report.facts import StageTime
from diffprep_assets.plan_report.probe import ProbeSpec, ProbeTask, StageProbe, TimedBatches
from diffprep_assets.plan_report.sizes import Sizes
from diffprep_assets.shard_plan.plan import PlannedShard
from diffprep_resources.compute.base import unheard
from diffprep_resources.compute.local import LocalEngine

Made = Mapping[str, tuple[bool, bool, bool]]
"""By shard: whether its latents, its text and its tar are there."""


def probe_tasks(shards: Sequence[PlannedShard]) -> list[ProbeTask]:
    """What to time: pictures of the bucket with most to do, and of the largest one, which decides
    the memory; captions and tars of the first."""
    work: dict[tuple[int, int], int] = {}
    first: dict[tuple[int, int], str] = {}
    for shard in shards:
        size = (shard.bucket.width, shard.bucket.height)
        work[size] = work.get(size, 0) + shard.num_samples * size[0] * size[1]
        first.setdefault(size, shard.shard)
    most = max(work, key=lambda size: work[size])
    largest = max(work, key=lambda size: (size[0] * size[1], work[size]))
    chosen = tuple(dict.fromkeys([first[most], first[largest]]))
    return [
        ProbeTask("encode_latents", chosen),
        ProbeTask("encode_text", chosen[:1]),
        ProbeTask("shard", chosen[:1]),
    ]


def probed(
    spec: ProbeSpec, shards: Sequence[PlannedShard], *, device: str, told: Callable[[int], None]
) -> tuple[dict[str, StageProbe], str | None]:
    """By stage what the probe found, and why it stopped short, if it did; `told` of each stage.

    A process of its own dies alone where memory does not suffice.
    """
    found: dict[str, StageProbe] = {}
    try:
        for outcome in LocalEngine([device]).run(spec, probe_tasks(shards), report=unheard):
            if outcome.error is not None:
                return found, f"{outcome.key}: {outcome.error}"
            found[outcome.key] = outcome.result
            told(1)
    except ChildProcessError as error:
        return found, str(error)
    return found, None


class Estimate:
    """Seconds of the three shard stages over a plan."""

    def __init__(self, shards: Sequence[PlannedShard], made: Made, batch_size: int) -> None:
        self._shards = shards
        self._made = made
        self._batch_size = batch_size

    def latents(self, probe: StageProbe, workers: int) -> StageTime:
        """A batch takes as long as its pixels, by the timed bucket of the nearest size."""

        def seconds(shard: PlannedShard) -> float:
            pixels = shard.bucket.width * shard.bucket.height
            near = min(probe.timed, key=lambda timed: abs(timed.pixels - pixels))
            return self._batches(shard) * per_batch(near) * pixels / near.pixels

        return self._time(probe, workers, {s.shard: seconds(s) for s in self._shards}, 0)

    def text(self, probe: StageProbe, workers: int) -> StageTime:
        """Every caption is padded to the same length, so that each batch takes the same time."""
        each = per_batch(probe.timed[0])
        return self._time(
            probe, workers, {s.shard: self._batches(s) * each for s in self._shards}, 1
        )

    def tars(self, probe: StageProbe, workers: int, sizes: Sizes) -> StageTime:
        """By bytes."""
        each = per_batch(probe.timed[0])
        return self._time(probe, workers, {s.shard: sizes.tar(s) * each for s in self._shards}, 2)

    def _batches(self, shard: PlannedShard) -> int:
        return -(-shard.num_samples // self._batch_size)

    def _time(
        self, probe: StageProbe, workers: int, seconds: Mapping[str, float], stage: int
    ) -> StageTime:
        left = sum(
            seconds[shard.shard] for shard in self._shards if not self._is_made(shard, stage)
        )
        return StageTime(
            seconds=(left / workers + probe.load_seconds) if left else 0.0,
            whole_seconds=sum(seconds.values()) / workers + probe.load_seconds,
            load_seconds=probe.load_seconds,
            timed=sum(timed.samples for timed in probe.timed),
            timed_seconds=sum(timed.seconds for timed in probe.timed),
            workers=workers,
        )

    def _is_made(self, shard: PlannedShard, stage: int) -> bool:
        done = self._made[shard.shard]
        return done[stage] or done[2]


def per_batch(timed: TimedBatches) -> float:
    """Seconds of one batch (or byte)."""
    return timed.seconds / max(1, timed.batches)
