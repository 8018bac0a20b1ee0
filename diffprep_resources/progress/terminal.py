"""Progress as one live line a stage, on standard error."""

import contextlib
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as RichProgress
from rich.text import Text

from diffprep_resources.progress.base import Progress


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text(f"{speed:.1f}/s" if speed else "", style="progress.data.speed")


class TerminalProgress(Progress):
    """A bar with rate, time left and rejects so far; it stays when the stage ends."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console

    @contextlib.contextmanager
    def _shown(
        self, name: str, total_samples: int | None, log: Callable[[str], None]
    ) -> Iterator[Callable[[int, int], None]]:
        columns = (
            TextColumn("{task.description:<16}"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            _Rate(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[rejects]}"),
        )
        with RichProgress(*columns, console=self._console) as bars:
            bar = bars.add_task(name, total=total_samples, rejects="")

            def show(done: int, rejects: int) -> None:
                words = f"{rejects} rejected" if rejects else ""
                bars.update(bar, completed=done, rejects=words)

            yield show
            done = bars.tasks[0].completed
            bars.update(bar, total=done or 1, completed=done or 1)
