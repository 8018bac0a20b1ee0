"""The stage of a dataset that failed last, until it ends well: what `list` shows without a log."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass

from diffprep_assets.layout import Layout
from diffprep_resources.storage.atomic import write_bytes

LONGEST = 2000


@dataclass(frozen=True, slots=True)
class Failed:
    """Which stage failed, why, and when (local time)."""

    stage: str
    message: str
    at: str


@contextmanager
def failure_noted(layout: Layout, stage: str) -> Iterator[None]:
    """Notes what the block raises, and forgets it once a block of the same stage ends well."""
    try:
        yield
    except Exception as error:
        failed = Failed(stage, str(error)[:LONGEST], time.strftime("%Y-%m-%d %H:%M:%S"))
        # The error itself is what counts; on a full disk this note is not written.
        with suppress(OSError):
            write_bytes(layout.last_failure, json.dumps(asdict(failed)).encode())
        raise
    failed = last_failure(layout)
    if failed is not None and failed.stage == stage:
        layout.last_failure.unlink(missing_ok=True)


def last_failure(layout: Layout) -> Failed | None:
    """What failed last and did not end well since; None when nothing did."""
    try:
        return Failed(**json.loads(layout.last_failure.read_bytes()))
    except (FileNotFoundError, ValueError, TypeError):
        return None
