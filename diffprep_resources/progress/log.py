"""Progress as lines in a run's log, at a pace that a person can read."""

import contextlib
import time
from collections.abc import Iterator

from diffprep_resources.progress.base import Glance, Log, Progress, Show, StageSummary
from diffprep_resources.progress.pace import Rate, clock, pace_text

QUICK_S = 5.0
EVERY_S = 30.0


class LogProgress(Progress):
    """A line at each tenth of a stage, and in between at least every half a minute, more rarely the
    longer the stage; one at its end. `echo` gets all lines too."""

    def __init__(self, *, echo: Log | None = None) -> None:
        super().__init__()
        self._echo = echo

    def teller(self, log: Log) -> Log:
        echo = self._echo
        if echo is None:
            return log

        def tell(line: str) -> None:
            log(line)
            echo(line)

        return tell

    @contextlib.contextmanager
    def _shown(self, summary: StageSummary, tell: Log) -> Iterator[Show]:
        pace, rate = _Pace(time.monotonic()), Rate()

        def show(glance: Glance) -> None:
            now = time.monotonic()
            rate.add(now, glance.done)
            if pace.is_due(now, glance):
                tell(f"{summary.stage}: {pace_text(glance, rate.per_second())}")

        begin = time.monotonic()
        yield show
        if summary.unit is not None:
            tell(end_text(summary, time.monotonic() - begin))


class _Pace:
    """When the next line is due."""

    def __init__(self, begin: float) -> None:
        self._begin = self._last = begin
        self._tenth = 0

    def is_due(self, now: float, glance: Glance) -> bool:
        since = now - self._last
        tenth = 10 * glance.done // glance.total if glance.total else 0
        next_tenth = self._tenth < tenth < 10 and since >= QUICK_S
        if not next_tenth and since < max(EVERY_S, (now - self._begin) / 20):
            return False
        self._last, self._tenth = now, tenth
        return True


def end_text(summary: StageSummary, seconds: float) -> str:
    """What a stage over parts or shards came to, in one line."""
    samples, unit = summary.samples, str(summary.unit)
    made = f"{summary.done:,} {unit if summary.done != 1 else unit.removesuffix('s')}"
    words = [f"{made} made, {summary.fresh:,} fresh"]
    if summary.failed:
        words.append(f"{len(summary.failed):,} failed")
    words.append(f"{samples.samples_out:,} samples")
    rejected = sum(samples.rejects.values())
    codes = ", ".join(f"{code} {count:,}" for code, count in samples.rejects.most_common(3))
    words.append(f"{rejected:,} rejected ({codes})" if rejected else "0 rejected")
    words.append(f"{seconds:.1f} s" if seconds < 60 else clock(seconds))
    return f"{summary.stage}: {', '.join(words)}"
