"""Who may work on a dataset at once (DESIGN 11)."""

from collections.abc import Callable
from contextlib import AbstractContextManager

from diffprep_assets.layout import Layout
from diffprep_resources.storage.locks import hold


def run_lock(
    layout: Layout, *, holder: str, wait_minutes: float = 0.0, log: Callable[[str], None]
) -> AbstractContextManager[None]:
    """Held by a whole run. `diffprep run` does not wait; the `_make` job does."""
    return hold(layout.run_lock, holder=holder, wait_s=wait_minutes * 60, waiting=log)


def alone(
    layout: Layout, stage: str, *, wait_minutes: float, log: Callable[[str], None]
) -> AbstractContextManager[None]:
    """Held by a stage that changes the whole dataset."""
    return hold(
        layout.dataset_lock,
        holder=f"{stage} of {layout.dataset}",
        wait_s=wait_minutes * 60,
        waiting=log,
    )


def together(
    layout: Layout, stage: str, *, wait_minutes: float, log: Callable[[str], None]
) -> AbstractContextManager[None]:
    """Held by a stage of parts or shards, which goes well with others of its kind."""
    return hold(
        layout.dataset_lock,
        holder=f"{stage} of {layout.dataset}",
        shared=True,
        wait_s=wait_minutes * 60,
        waiting=log,
    )
