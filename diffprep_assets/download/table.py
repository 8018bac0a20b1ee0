"""The part's file stamps: what each source file was when it was last looked at."""

import json
from collections.abc import Iterable
from dataclasses import asdict, fields
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from diffprep_assets.freshness import digest_of, fingerprint
from diffprep_resources.sources.base import FileStamp
from diffprep_resources.storage.atomic import replace_file
from diffprep_resources.storage.parquet_tables import readable_table, table_head

SCHEMA = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("mtime_ns", pa.int64(), nullable=False),
        pa.field("ctime_ns", pa.int64(), nullable=False),
        pa.field("caption_path", pa.string()),
        pa.field("caption_size", pa.int64()),
        pa.field("caption_mtime_ns", pa.int64()),
        pa.field("caption_ctime_ns", pa.int64()),
    ]
)


def stamps_fingerprint(stamps: Iterable[FileStamp], *, revision: str | None) -> str:
    """The `download` fingerprint of a part."""
    stamped = digest_of([list(asdict(stamp).values()) for stamp in stamps])
    return fingerprint("download", settings={}, inputs={"files": stamped, "revision": revision})


def write_stamps(path: Path, stamps: list[FileStamp], *, fingerprint: str) -> None:
    """The stamps at `path`, replaced as a whole."""
    table = pa.Table.from_pylist([asdict(stamp) for stamp in stamps], schema=SCHEMA)
    head = json.dumps({"fingerprint": fingerprint}, sort_keys=True)
    with replace_file(path) as file:
        pq.write_table(table.replace_schema_metadata({"diffprep": head}), file, compression="zstd")


def read_stamps(path: Path) -> list[FileStamp]:
    """The stamps of a part, in source order."""
    names = {column.name for column in fields(FileStamp)}
    with readable_table(path):
        rows = pq.read_table(path).to_pylist()
    return [
        FileStamp(**{name: value for name, value in row.items() if name in names}) for row in rows
    ]


def read_fingerprint(path: Path) -> str | None:
    """The fingerprint of a whole stamps table; None when there is none."""
    head = table_head(path)
    return head["fingerprint"] if head else None
