"""Which parquet files a finished FastVideo shard consists of; the list itself is the switch.

    shards_fastvideo/<shard>/data_chunk_0-1f9c03ab.parquet    a name never holds other content
    shards_fastvideo/<shard>.files.json                       those that count, in order

The list takes its place as a tar does (shard/commit.py), after the files that it names: until then
the old list and the old files stand. Files that no list names go next.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import xxhash

from diffprep_assets.layout import Layout

READ_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class ChunkFile:
    """One parquet file of a shard: its name in the shard's folder, and what is in it."""

    name: str
    num_rows: int
    size_bytes: int
    digest: str


def files_bytes(files: Sequence[ChunkFile]) -> bytes:
    """The list as it is written; equal lists give equal bytes."""
    return json.dumps([asdict(file) for file in files], sort_keys=True, indent=1).encode() + b"\n"


def read_files(path: Path) -> tuple[ChunkFile, ...] | None:
    """The list at `path`; None where there is none, or none that can be understood."""
    try:
        return tuple(ChunkFile(**file) for file in json.loads(path.read_bytes()))
    except (FileNotFoundError, ValueError, TypeError):
        return None


def chunk_name(number: int, digest: str) -> str:
    """The name of a shard's file, while it is work."""
    return f"data_chunk_{number}-{digest[:8]}.parquet"


def finished_bytes(layout: Layout, shard: str) -> int | None:
    """Size of the finished shard's files together; None where one is missing or of another size."""
    files = read_files(layout.shard_file(shard))
    if files is None:
        return None
    folder = layout.shard_folder(shard)
    for file in files:
        try:
            if (folder / file.name).stat().st_size != file.size_bytes:
                return None
        except FileNotFoundError:
            return None
    return sum(file.size_bytes for file in files)


def remove_unlisted(layout: Layout, shard: str) -> None:
    """Remove what the shard's list does not name: older files, and what a killed run left."""
    folder = layout.shard_folder(shard)
    listed = {file.name for file in read_files(layout.shard_file(shard)) or ()}
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.name not in listed:
            path.unlink(missing_ok=True)


def file_digest(path: Path) -> str:
    """xxh3_128 of all bytes, 32 hex digits."""
    digest = xxhash.xxh3_128()
    with path.open("rb") as file:
        while data := file.read(READ_BYTES):
            digest.update(data)
    return digest.hexdigest()
