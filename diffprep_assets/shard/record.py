"""What is kept beside a finished tar: a small JSON record, and one parquet row per sample.

The record is written last, so a shard with a record is whole.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from diffprep_assets.shard.tar_writer import TarPart
from diffprep_resources.storage.atomic import replace_file, write_bytes
from diffprep_resources.storage.parquet_tables import readable_table

RECORD_VERSION = 1

PART_TYPE = pa.struct(
    [
        pa.field("name", pa.string(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
    ]
)
SAMPLES_SCHEMA = pa.schema(
    [
        pa.field("sample_id", pa.int64(), nullable=False),
        pa.field("key", pa.string(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("digest", pa.string(), nullable=False),
        pa.field("latents_fingerprint", pa.string(), nullable=False),
        pa.field("text_fingerprint", pa.string(), nullable=False),
        pa.field("parts", pa.list_(PART_TYPE), nullable=False),
        pa.field("first_frame_fingerprint", pa.string()),
        pa.field("clip_fingerprint", pa.string()),
    ]
)
# By encode stage the column that says which row a sample was written from.
FINGERPRINT_COLUMNS = {
    "encode_latents": "latents_fingerprint",
    "encode_text": "text_fingerprint",
    "encode_first_frame": "first_frame_fingerprint",
    "encode_clip": "clip_fingerprint",
}


@dataclass(frozen=True, slots=True)
class ShardReject:
    """A planned sample that is not in the tar, and why. `fingerprint` is the sample's own at
    `stage`: while it stays, the sample is not tried again."""

    source_key: str
    sample_id: int
    stage: str
    code: str
    message: str
    transient: bool = False
    fingerprint: str = ""


@dataclass(frozen=True, slots=True)
class ShardRecord:
    """One finished shard: which one, how it was made, and the size and digest of its tar.

    `facts` are for people: `tokens`, by text encoder how many captions are cut short (`truncated`),
    its `limit` and the `longest` caption, in tokens. `frames` are those of every clip, 0 of
    pictures.
    """

    shard: str
    fingerprint: str
    tier: int
    width: int
    height: int
    number: int
    num_samples: int
    size_bytes: int
    end_offset: int
    digest: str
    inputs: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    rejects: tuple[ShardReject, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    frames: int = 0


@dataclass(frozen=True, slots=True)
class SampleRow:
    """One sample of a tar: where it lies, that range's digest, and what it was made from. The last
    two are "" but for clips with a first frame of their own."""

    sample_id: int
    key: str
    offset: int
    size: int
    digest: str
    latents_fingerprint: str
    text_fingerprint: str
    parts: tuple[TarPart, ...]
    first_frame_fingerprint: str = ""
    clip_fingerprint: str = ""


def write_record(path: Path, record: ShardRecord) -> None:
    """`path` holding the record, replaced as a whole; equal records give equal bytes."""
    content = {"version": RECORD_VERSION, **asdict(record)}
    write_bytes(path, json.dumps(content, sort_keys=True, indent=1).encode() + b"\n")


def read_record(path: Path) -> ShardRecord | None:
    """The record at `path`; None when there is none, or none that this version understands."""
    try:
        content = json.loads(path.read_bytes())
        if content.pop("version") != RECORD_VERSION:
            return None
        rejects = tuple(ShardReject(**reject) for reject in content.pop("rejects"))
        return ShardRecord(**content, rejects=rejects)
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        return None


def bad_keys(path: Path) -> frozenset[str]:
    """Keys of samples that a validation found bad in a shard's tar; none when it is not marked."""
    try:
        return frozenset(json.loads(path.read_bytes())["keys"])
    except FileNotFoundError:
        return frozenset()


def mark_bad_keys(path: Path, keys: Iterable[str]) -> None:
    """The mark at `path` (Layout.shard_bad) with `keys` added: the next run writes the shard anew,
    and takes over none of those rows."""
    marked = {"keys": sorted({*bad_keys(path), *keys})}
    write_bytes(path, json.dumps(marked).encode())


def write_samples(path: Path, rows: Sequence[SampleRow]) -> None:
    """`path` holding one parquet row per sample, in tar order."""
    table = pa.Table.from_pylist([asdict(row) for row in rows], schema=SAMPLES_SCHEMA)
    with replace_file(path) as file:
        pq.write_table(table, file, compression="zstd")


def sample_columns(path: Path, *names: str) -> tuple[list[Any], ...]:
    """Some columns of one shard's rows, in tar order, without reading the others. Raises
    DamagedTableError."""
    with readable_table(path):
        table = pq.read_table(path, columns=list(names))
    return tuple(table.column(name).to_pylist() for name in names)


def read_samples(path: Path, *, where: pc.Expression | None = None) -> list[SampleRow]:
    """The rows of one shard, in tar order; with `where`, only those that it holds true of.
    Raises DamagedTableError."""
    with readable_table(path):
        rows = pq.read_table(path, schema=SAMPLES_SCHEMA, filters=where).to_pylist()
    return [_sample_row(row) for row in rows]


def _sample_row(row: dict[str, Any]) -> SampleRow:
    given = {name: value for name, value in row.items() if value is not None}
    return SampleRow(**{**given, "parts": tuple(TarPart(**part) for part in row["parts"])})
