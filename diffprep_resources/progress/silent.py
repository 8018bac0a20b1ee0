"""Progress that nobody watches: summaries are kept, nothing is shown."""

import contextlib
from collections.abc import Iterator

from diffprep_resources.progress.base import Log, Progress, Show, StageSummary


class SilentProgress(Progress):
    """For runs that are looked at by their summaries alone."""

    @contextlib.contextmanager
    def _shown(self, summary: StageSummary, tell: Log) -> Iterator[Show]:
        yield lambda glance: None
