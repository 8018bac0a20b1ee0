"""The table of one part's perceptual hashes: one row per kept picture, in source order."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from diffprep_resources.storage.atomic import replace_file
from diffprep_resources.storage.parquet_tables import readable_table, table_head

ROWS_PER_GROUP = 1024

SCHEMA = pa.schema(
    [
        # The picture's own source_key, however many captions it has.
        pa.field("group", pa.string(), nullable=False),
        pa.field("image_digest", pa.string(), nullable=False),
        # Null for a picture without contrast, and for one whose pixels cannot be decoded.
        pa.field("hash", pa.uint64()),
    ]
)


class HashTableWriter:
    """Collects rows and writes them by the thousand."""

    def __init__(self, parquet: pq.ParquetWriter, schema: pa.Schema) -> None:
        self._parquet = parquet
        self._schema = schema
        self._rows: list[dict[str, Any]] = []

    def add(self, group: str, image_digest: str, hash_: int | None) -> None:
        self._rows.append({"group": group, "image_digest": image_digest, "hash": hash_})
        if len(self._rows) >= ROWS_PER_GROUP:
            self.flush()

    def flush(self) -> None:
        if self._rows:
            self._parquet.write_table(pa.Table.from_pylist(self._rows, schema=self._schema))
            self._rows = []


@contextmanager
def hash_table(path: Path, *, metadata: dict[str, Any]) -> Iterator[HashTableWriter]:
    """A writer whose table takes the name `path` when the block ends well."""
    schema = SCHEMA.with_metadata({"diffprep": json.dumps(metadata, sort_keys=True)})
    with (
        replace_file(path) as file,
        pq.ParquetWriter(file, schema, compression="zstd") as parquet,
    ):
        writer = HashTableWriter(parquet, schema)
        yield writer
        writer.flush()


def read_head(path: Path) -> dict[str, Any] | None:
    """`fingerprint` and `settings` of a whole table; None when there is none."""
    return table_head(path)


def read_hashes(path: Path) -> pa.Table:
    """`group`, `image_digest` and `hash` of every kept picture of the part."""
    with readable_table(path):
        return pq.read_table(path)
