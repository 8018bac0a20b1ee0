"""Who may work on a dataset at once (DESIGN 11), and which runs died at it."""

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from diffprep_assets.last_failure import failure_noted
from diffprep_assets.layout import Layout
from diffprep_resources.storage.locks import hold, is_held

logger = logging.getLogger(__name__)

Log = Callable[[str], None]

# Another run may be looking whether this step lives, which takes its lock for a moment.
LOOKED_AT_S = 5.0


def run_lock(
    layout: Layout, *, holder: str, wait_minutes: float = 0.0, log: Log
) -> AbstractContextManager[None]:
    """Held by a whole run. `diffprep run` does not wait; the `_make` job does."""
    return hold(layout.run_lock, holder=holder, wait_s=wait_minutes * 60, waiting=log)


@dataclass(frozen=True, slots=True)
class StepLocks:
    """The locks of one step of a run: that it lives, and what of the dataset it holds. A job that
    makes other runs is a step of its own."""

    layout: Layout
    stage: str
    run_id: str
    wait_minutes: float
    log: Log

    def living(self) -> AbstractContextManager[None]:
        """Held by what lives, without a hold on the dataset: left behind, it tells of a death."""
        path = self.layout.step_lock(self.stage, self.run_id)
        return hold(path, holder=self._holder, wait_s=LOOKED_AT_S)

    def alone(self) -> AbstractContextManager[None]:
        """Held by a stage that changes the whole dataset."""
        return self._held(shared=False)

    def together(self) -> AbstractContextManager[None]:
        """Held by a stage of parts or shards, which goes well with others of its kind."""
        return self._held(shared=True)

    @property
    def _holder(self) -> str:
        return f"{self.stage} of {self.layout.dataset}, run {self.run_id}"

    @contextmanager
    def _held(self, *, shared: bool) -> Iterator[None]:
        with (
            self.living(),
            hold(
                self.layout.dataset_lock,
                holder=self._holder,
                shared=shared,
                wait_s=self.wait_minutes * 60,
                waiting=self._waiting,
            ),
            failure_noted(self.layout, self.stage),
        ):
            yield

    def _waiting(self, words: str) -> None:
        """Into the run's log, and to whoever looks at this process: it may take an hour."""
        self.log(words)
        logger.warning("%s: %s", self.stage, words)


def runs_that_died(layout: Layout) -> list[str]:
    """Ids of runs that were killed within a step: their step's lock file is left, and not held."""
    if not layout.locks.is_dir():
        return []
    left = [path for path in layout.locks.glob("step-*.lock") if _is_left_behind(path)]
    return sorted({path.stem.removeprefix("step-").split("-", 1)[1] for path in left})


def _is_left_behind(path: Path) -> bool:
    """Whether a step's lock file is a dead one's: one that is just being taken is empty, and one
    that was just given back is gone."""
    try:
        is_written = path.stat().st_size > 0
    except FileNotFoundError:
        return False
    return is_written and not is_held(path) and path.exists()


def forget_run(layout: Layout, run_id: str) -> None:
    """Remove the lock files that a dead run left."""
    for path in layout.locks.glob(f"step-*-{run_id}.lock"):
        path.unlink(missing_ok=True)
