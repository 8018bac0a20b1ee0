"""Progress that nobody watches: summaries are kept, nothing is shown."""

import contextlib
from collections.abc import Callable, Iterator

from diffprep_resources.progress.base import Progress


class SilentProgress(Progress):
    """For output that is not a terminal."""

    @contextlib.contextmanager
    def _shown(
        self, name: str, total_samples: int | None, log: Callable[[str], None]
    ) -> Iterator[Callable[[int, int], None]]:
        yield lambda done, rejects: None
