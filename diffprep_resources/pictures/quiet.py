"""Reading pictures without Pillow's warnings and log lines, from any number of threads.

`warnings.catch_warnings` swaps the whole process's filters and is not safe between threads, so one
filter of ours is put in front while anybody reads, and taken away by the last who leaves. (libtiff
still writes a line to stderr about a broken TIFF; only fd 2 itself could be turned away.)
"""

import logging
import re
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

_MODULES = r"PIL\."
_OURS = ("ignore", None, Warning, re.compile(_MODULES), 0)
_tiff_logger = logging.getLogger("PIL.TiffImagePlugin")
_lock = threading.Lock()
_readers = 0


def _drop(_: logging.LogRecord) -> bool:
    return False


@contextmanager
def quiet_pillow() -> Iterator[None]:
    """A block in which Pillow's warnings and log lines are neither shown nor made errors."""
    global _readers  # noqa: PLW0603
    with _lock:
        _readers += 1
        warnings.filterwarnings("ignore", module=_MODULES)
        _tiff_logger.addFilter(_drop)
    try:
        yield
    finally:
        with _lock:
            _readers -= 1
            if _readers == 0:
                _tiff_logger.removeFilter(_drop)
                filters = cast("list[object]", warnings.filters)
                if _OURS in filters:
                    filters.remove(_OURS)
