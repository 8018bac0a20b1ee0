"""The source index on disk: one row per source file that ever was listed."""

import json
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from diffprep_assets.freshness import digest_of
from diffprep_assets.source_index.parts import IndexedFile, RemoteFacts, SourceParts
from diffprep_resources.storage.atomic import replace_file
from diffprep_resources.storage.parquet_tables import readable_table, table_head

SCHEMA = pa.schema(
    [
        pa.field("part", pa.string(), nullable=False),
        pa.field("path", pa.string(), nullable=False),
        pa.field("num_samples", pa.int64()),
        pa.field("present", pa.bool_(), nullable=False),
        # Of remote files: what the listing said of each, and of its caption or metadata file.
        pa.field("size", pa.int64()),
        pa.field("version", pa.string()),
        pa.field("caption_path", pa.string()),
        pa.field("caption_size", pa.int64()),
        pa.field("caption_version", pa.string()),
    ]
)

REMOTE_COLUMNS = tuple(column.name for column in fields(RemoteFacts))


@dataclass(frozen=True, slots=True)
class SourceIndex:
    """Parts and their files. `other_files` counts files that are no samples, by suffix. `origin`
    and `asked` tell a remote source's place, and what was asked of it."""

    parts: SourceParts
    revision: str | None = None
    other_files: dict[str, int] = field(default_factory=dict)
    origin: str | None = None
    asked: str | None = None

    @classmethod
    def empty(cls) -> "SourceIndex":
        """An index of nothing."""
        return cls(SourceParts())

    @property
    def fingerprint(self) -> str:
        rows = [_row(file) for file in self.parts.files]
        return digest_of([rows, dict(self.parts.limits), self.revision])

    def paths(self) -> dict[str, list[str]]:
        """The files that are still there, by part, in order."""
        paths: dict[str, list[str]] = {}
        for file in self.parts.files:
            if file.present:
                paths.setdefault(file.part, []).append(file.path)
        return paths


def write_index(path: Path, index: SourceIndex) -> None:
    """The index at `path`, replaced as a whole."""
    rows = [_row(file) for file in index.parts.files]
    head = {
        "revision": index.revision,
        "other_files": index.other_files,
        "limits": dict(index.parts.limits),
        "fingerprint": index.fingerprint,
        "origin": index.origin,
        "asked": index.asked,
    }
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    table = table.replace_schema_metadata({"diffprep": json.dumps(head, sort_keys=True)})
    with replace_file(path) as file:
        pq.write_table(table, file, compression="zstd")


def read_index(path: Path) -> SourceIndex | None:
    """The index at `path`; None when there is none."""
    head = read_head(path)
    if head is None:
        return None
    with readable_table(path):
        files = tuple(map(_file, pq.read_table(path).to_pylist()))
    return SourceIndex(
        SourceParts(files, head["limits"]),
        head["revision"],
        head["other_files"],
        head.get("origin"),
        head.get("asked"),
    )


def _row(file: IndexedFile) -> dict[str, Any]:
    row = asdict(file)
    remote = row.pop("remote")
    return row | (remote or dict.fromkeys(REMOTE_COLUMNS))


def _file(row: dict[str, Any]) -> IndexedFile:
    facts = {name: row.pop(name, None) for name in REMOTE_COLUMNS}
    return IndexedFile(**row, remote=None if facts["version"] is None else RemoteFacts(**facts))


def read_head(path: Path) -> dict[str, Any] | None:
    """What stands in the index's metadata; None when there is no whole index."""
    return table_head(path)
