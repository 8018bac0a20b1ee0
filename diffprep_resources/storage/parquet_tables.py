"""Tables that may be missing, cut short or rotten: what their heads say, and errors with names."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from diffprep_resources.errors import DiffprepError

MAGIC = b"PAR1"


class DamagedTableError(DiffprepError):
    """The table at `path` cannot be read, though the disk gives its bytes."""

    def __init__(self, path: Path, why: Exception) -> None:
        super().__init__(f"{path} is damaged: {why}; remove it and run again")
        self.path = path


def table_head(path: Path) -> dict[str, Any] | None:
    """What stands in a table's metadata under the key `diffprep`; None when there is no whole
    table."""
    try:
        with readable_table(path):
            metadata = pq.read_schema(path).metadata
        return json.loads(metadata[b"diffprep"])
    except (FileNotFoundError, DamagedTableError, ValueError, KeyError, TypeError):
        return None


def has_table(path: Path) -> bool:
    """Whether a table is there that was not cut short; looks at its last bytes only."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - len(MAGIC)))
            return file.read() == MAGIC
    except FileNotFoundError:
        return False


@contextmanager
def readable_table(path: Path) -> Iterator[None]:
    """Raises DamagedTableError where what is read in the block is no table; errors of the disk stay
    as they are."""
    try:
        yield
    except (pa.ArrowException, UnicodeDecodeError, OSError) as error:
        # Arrow tells of rotten bytes by an OSError without a number.
        if isinstance(error, OSError) and (type(error) is not OSError or error.errno is not None):
            raise
        raise DamagedTableError(path, error) from error
