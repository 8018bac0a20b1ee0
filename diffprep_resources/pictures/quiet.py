"""Reading pictures without Pillow's warnings, from any number of threads.

`warnings.catch_warnings` swaps the whole process's filters and is not safe between threads, so one
filter of ours is put in front while anybody reads, and taken away by the last who leaves.
"""

import re
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

_MODULES = r"PIL\."
_OURS = ("ignore", None, Warning, re.compile(_MODULES), 0)
_lock = threading.Lock()
_readers = 0


@contextmanager
def quiet_pillow() -> Iterator[None]:
    """A block in which a warning raised inside Pillow is neither shown nor made an error."""
    global _readers  # noqa: PLW0603
    with _lock:
        _readers += 1
        warnings.filterwarnings("ignore", module=_MODULES)
    try:
        yield
    finally:
        with _lock:
            _readers -= 1
            if _readers == 0:
                filters = cast("list[object]", warnings.filters)
                if _OURS in filters:
                    filters.remove(_OURS)
