"""The parquet files of one shard, written one after the other, a row in memory at a time."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from diffprep_assets.shard.tar_writer import TarPart, TarRow
from diffprep_assets.shard_fastvideo.files import ChunkFile, chunk_name, file_digest
from diffprep_assets.shard_fastvideo.stored import row_digest
from diffprep_resources.encoders.base import Workload
from diffprep_resources.fastvideo.rows import FastVideoRow, write_rows
from diffprep_resources.storage.atomic import commit, temporary_beside

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class WrittenChunks(Generic[Item]):
    """The files, and each item with where its row lies: file, row group and bytes of tensors."""

    files: tuple[ChunkFile, ...]
    rows: tuple[tuple[Item, TarRow], ...]


def write_chunks(
    folder: Path,
    items: Sequence[Item],
    row_of: Callable[[Item], FastVideoRow],
    *,
    workload: Workload,
    samples_per_file: int,
) -> WrittenChunks[Item]:
    """What was written into `folder`, where files that stood there before stay as they were."""
    folder.mkdir(parents=True, exist_ok=True)
    files: list[ChunkFile] = []
    rows: list[tuple[Item, TarRow]] = []
    for number, start in enumerate(range(0, len(items), samples_per_file)):
        chunk = items[start : start + samples_per_file]
        seen: list[tuple[str, int, str]] = []
        temporary = temporary_beside(folder / f"data_chunk_{number}.parquet")
        write_rows(temporary, _noted((row_of(item) for item in chunk), seen), workload=workload)
        file = _named(temporary, folder, number, num_rows=len(chunk))
        files.append(file)
        for group, (item, (key, size, digest)) in enumerate(zip(chunk, seen, strict=True)):
            part = TarPart(file.name, group, size)
            rows.append((item, TarRow(key, group, size, digest, (part,))))
    return WrittenChunks(tuple(files), tuple(rows))


def _noted(
    rows: Iterator[FastVideoRow], seen: list[tuple[str, int, str]]
) -> Iterator[FastVideoRow]:
    """The rows; adds the id of each to `seen`, with its tensors' bytes and their digest."""
    for row in rows:
        size = sum(tensor.nbytes for tensor in row.tensors.values() if tensor is not None)
        seen.append((row.id, size, row_digest(row.tensors)))
        yield row


def _named(temporary: Path, folder: Path, number: int, *, num_rows: int) -> ChunkFile:
    """The finished file under a name that its content gives."""
    digest = file_digest(temporary)
    size = os.stat(temporary).st_size
    path = folder / chunk_name(number, digest)
    commit(temporary, path)
    return ChunkFile(path.name, num_rows, size, digest)
