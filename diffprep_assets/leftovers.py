"""What killed runs left half written: hidden files of the work folder, as large as a shard."""

from contextlib import suppress
from pathlib import Path

from diffprep_assets.encoded_rows import row_path
from diffprep_assets.layout import Layout
from diffprep_assets.recipe.formats import ENCODE_STAGES, SHARD_STAGE
from diffprep_resources.errors import DatasetLockedError
from diffprep_resources.storage.atomic import TEMPORARY_PREFIX, remove_leftovers
from diffprep_resources.storage.locks import hold


def clear_leftovers(layout: Layout) -> None:
    """Remove them, unless a step is at work, whose own files would be among them.

    At the start of a run: each run that was killed may have left some, and the disk may be full.
    """
    if not any(any(folder.glob(f"{TEMPORARY_PREFIX}*")) for folder in _folders(layout)):
        return
    lock = hold(layout.dataset_lock, holder="a run that clears up")
    with suppress(DatasetLockedError), lock:
        remove_all_leftovers(layout)


def remove_all_leftovers(layout: Layout) -> None:
    """Remove them. The caller holds the dataset's lock alone."""
    for folder in _folders(layout):
        remove_leftovers(folder)


def _folders(layout: Layout) -> list[Path]:
    files = (
        layout.source_index,
        layout.download("x"),
        layout.bucket("x"),
        layout.source_columns("x"),
        layout.picture_hash("x"),
        *(row_path(layout, stage, "x") for stage in ENCODE_STAGES),
        *(layout.of(format).shard_file("x") for format in SHARD_STAGE),
    )
    return [file.parent for file in files]
