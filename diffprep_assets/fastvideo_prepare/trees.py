"""The trees that FastVideo's trainers read, each swapped in whole.

    training_dataset/worker_3/data_chunk_0.parquet   a shard: a name never changes its content
    training_dataset/worker_3-1/...                  the same shard after a rewrite
    .next-training_dataset, .old-training_dataset    while one takes the other's place

A reader lists all files below its root as it starts, and opens them by name later. So a tree is
built beside the old one, of hard links, and takes its place by two renames: who starts finds the
old tree, none, or the new one; who began before finds a file of a changed shard missing, and never
other rows in it. A trainer's map_style_cache, which lists files that may be gone, goes.
"""

import os
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from diffprep_assets.energon_prepare.names import PublishedShard
from diffprep_assets.energon_prepare.output_state import PublishedFile, Stamp
from diffprep_assets.layout import Layout
from diffprep_assets.shard_fastvideo.files import ChunkFile, file_digest, read_files
from diffprep_resources.encoders.base import Workload
from diffprep_resources.errors import StageInputError
from diffprep_resources.fastvideo.rows import copy_rows
from diffprep_resources.fastvideo.trees import CACHE
from diffprep_resources.storage.atomic import link_or_copy, sync_folder

NEXT, OLD = ".next-", ".old-"


@dataclass(frozen=True, slots=True)
class ServedFile:
    """A published file: its name relative to the output folder, rows, bytes and digest."""

    name: str
    num_rows: int
    size_bytes: int
    digest: str


def shard_files(layout: Layout, shard: str) -> tuple[ChunkFile, ...]:
    """The parquet files of a finished shard. Raises StageInputError where there are none."""
    files = read_files(layout.shard_file(shard))
    if files is None:
        raise StageInputError(
            f"shard {shard}: {layout.shard_file(shard)} is missing; run "
            f"`diffprep run {layout.dataset}`"
        )
    return files


def folder_stamp(folder: Path) -> Stamp | None:
    """Bytes of a folder's files together, and the latest mtime_ns of one; None without folder."""
    if not folder.is_dir():
        return None
    found = [path.stat() for path in folder.iterdir() if path.is_file()]
    return sum(stat.st_size for stat in found), max((s.st_mtime_ns for s in found), default=0)


def is_in_place(
    layout: Layout, name: str, *, shard: str, known: PublishedFile, whole: bool
) -> bool:
    """Whether the folder at `name` holds what it was given: by the stamps of both sides, else file
    by file. Of a shard of which rows are left out (not `whole`) the stamps alone tell."""
    folder, source = layout.output_dir / name, layout.shard_folder(shard)
    stamps = (known.stamp, known.source_stamp)
    if None not in stamps and stamps == (folder_stamp(folder), folder_stamp(source)):
        return True
    if not whole or not folder.is_dir():
        return False
    files = shard_files(layout, shard)
    if {path.name for path in folder.iterdir()} != {_published(n) for n in range(len(files))}:
        return False
    return all(
        _is_same(folder / _published(number), source / file.name, file)
        for number, file in enumerate(files)
    )


def put_shard(layout: Layout, shard: PublishedShard, folder: Path, *, workload: Workload) -> None:
    """The folder with the shard's files, less the rows that are skipped. A file without rows is not
    there."""
    folder.mkdir(parents=True)
    without = {f"{sample_id:010d}" for sample_id in shard.skipped}
    source = layout.shard_folder(shard.record.shard)
    for number, file in enumerate(shard_files(layout, shard.record.shard)):
        target = folder / _published(number)
        if not without:
            _link(source / file.name, target)
        elif not copy_rows(source / file.name, target, without=without, workload=workload):
            target.unlink()
    sync_folder(folder)


def swap_tree(
    layout: Layout,
    tree: str,
    shards: Iterable[PublishedShard],
    *,
    in_place: Collection[str],
    ours: Callable[[str], bool],
    workload: Workload,
) -> None:
    """The tree (its name relative to the output folder) with just these shards, in the place of the
    one before. Folders at names that are `in_place` are taken over; entries of the old tree that
    are not `ours` stay."""
    place = layout.output_dir / tree
    following, before = place.with_name(NEXT + place.name), place.with_name(OLD + place.name)
    shutil.rmtree(following, ignore_errors=True)
    following.mkdir(parents=True)
    for shard in shards:
        folder = following / shard.name.rpartition("/")[2]
        if shard.name in in_place:
            folder.mkdir()
            for path in sorted((layout.output_dir / shard.name).iterdir()):
                _link(path, folder / path.name)
            sync_folder(folder)
        else:
            put_shard(layout, shard, folder, workload=workload)
    sync_folder(following)
    if place.exists():
        place.rename(before)
    following.rename(place)
    sync_folder(place.parent)
    _clear(before, place, ours=ours)


def remove_tree(layout: Layout, tree: str, *, ours: Callable[[str], bool]) -> None:
    """Remove a tree that holds no shard any more; what is not `ours` stays."""
    place = layout.output_dir / tree
    _clear(place, place, ours=ours)
    if place.is_dir() and not any(place.iterdir()):
        place.rmdir()
        if place.parent != layout.output_dir and not any(place.parent.iterdir()):
            place.parent.rmdir()


def mend_swap(layout: Layout, tree: str, *, ours: Callable[[str], bool]) -> None:
    """Settle a swap that was broken off: the old tree back where none stands, else away."""
    place = layout.output_dir / tree
    before = place.with_name(OLD + place.name)
    shutil.rmtree(place.with_name(NEXT + place.name), ignore_errors=True)
    if before.is_dir() and not place.exists():
        before.rename(place)
    elif before.is_dir():
        _clear(before, place, ours=ours)


def served_files(
    layout: Layout, shard: PublishedShard, *, known: Mapping[str, ServedFile]
) -> list[ServedFile]:
    """The files that stand at the shard's name, which is in place; `known` is what was said of them
    before, by name."""
    files = shard_files(layout, shard.record.shard)
    if not shard.skipped:
        return [
            ServedFile(
                f"{shard.name}/{_published(number)}", file.num_rows, file.size_bytes, file.digest
            )
            for number, file in enumerate(files)
        ]
    found = []
    for path in sorted((layout.output_dir / shard.name).iterdir(), key=_number):
        name = f"{shard.name}/{path.name}"
        found.append(known.get(name) or _looked_at(path, name))
    return found


def remove_caches(folder: Path) -> None:
    """Remove what FastVideo's trainers keep of the files that they listed, unread: a pickle."""
    for path in (folder / CACHE, *folder.glob(f"worker_*/{CACHE}")):
        if path.is_symlink() or path.is_file():
            path.unlink()
        else:
            shutil.rmtree(path, ignore_errors=True)


def _looked_at(path: Path, name: str) -> ServedFile:
    import pyarrow.parquet as pq

    rows = pq.read_metadata(path).num_rows
    return ServedFile(name, rows, path.stat().st_size, file_digest(path))


def _clear(folder: Path, place: Path, *, ours: Callable[[str], bool]) -> None:
    """Remove what is ours in a tree that counts no more, and caches; the rest goes to `place`."""
    if not folder.is_dir():
        return
    remove_caches(folder)
    for path in sorted(folder.iterdir()):
        if ours(path.name):
            shutil.rmtree(path)
        elif folder != place and not (place / path.name).exists():
            path.rename(place / path.name)
    if folder != place and not any(folder.iterdir()):
        folder.rmdir()


def _published(number: int) -> str:
    return f"data_chunk_{number}.parquet"


def _number(path: Path) -> int:
    return int(path.stem.rpartition("_")[2])


def _is_same(path: Path, source: Path, file: ChunkFile) -> bool:
    if path.samefile(source):
        return True
    return path.stat().st_size == file.size_bytes and file_digest(path) == file.digest


def _link(source: Path, target: Path) -> None:
    """As `link_or_copy`, but leaves it to the caller to make the folder's names durable."""
    try:
        os.link(source, target)
    except OSError:
        link_or_copy(source, target)
