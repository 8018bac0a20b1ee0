"""Progress as one live line a stage, on standard error."""

import contextlib
from collections.abc import Iterator

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
)
from rich.progress import Progress as RichProgress
from rich.text import Text

from diffprep_resources.progress.base import Glance, Log, Show, StageSummary
from diffprep_resources.progress.log import LogProgress
from diffprep_resources.progress.pace import clock, memory_text


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text(f"{speed:.1f}/s" if speed else "", style="progress.data.speed")


class _Left(ProgressColumn):
    def render(self, task: Task) -> Text:
        left = None if task.finished else task.time_remaining
        return Text(f"{clock(left)} left" if left is not None else "", style="progress.remaining")


class TerminalProgress(LogProgress):
    """A bar with rate, time left, rejects so far and memory; it stays when the stage ends. The
    run's log gets its lines as well."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console

    @contextlib.contextmanager
    def _shown(self, summary: StageSummary, tell: Log) -> Iterator[Show]:
        columns = (
            TextColumn("{task.description:<15}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            _Rate(),
            TimeElapsedColumn(),
            _Left(),
            TextColumn("{task.fields[facts]}"),
        )
        with (
            RichProgress(*columns, console=self._console) as bars,
            super()._shown(summary, tell) as show_line,
        ):
            bar = bars.add_task(summary.stage, total=None, facts="")

            def show(glance: Glance) -> None:
                show_line(glance)
                facts = [f"{glance.rejected:,} rejected"] if glance.rejected else []
                if glance.memory:
                    facts.append(memory_text(glance.memory))
                bars.update(bar, completed=glance.done, total=glance.total, facts=", ".join(facts))

            yield show
            done, words = _at_the_end(summary)
            bars.update(bar, total=done or 1, completed=done or 1, facts=words)


def _at_the_end(summary: StageSummary) -> tuple[int, str]:
    """Samples through the stage, and what of it is worth saying."""
    rejected = sum(summary.samples.rejects.values())
    words = [f"{rejected:,} rejected"] if rejected else []
    if summary.failed:
        words.append(f"{len(summary.failed):,} {summary.unit} failed")
    if summary.unit and summary.fresh and not summary.done and not summary.failed:
        words.append("all fresh")
    return summary.samples.samples_in, ", ".join(words)
