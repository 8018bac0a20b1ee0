"""Where the captions of a source stand, and the field of JSON that holds them."""

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from diffprep_assets.bucket.table import BucketRow
from diffprep_assets.dataset import Dataset
from diffprep_assets.recipe.folders import is_remote
from diffprep_assets.source_index.catalog import IndexCatalog
from diffprep_assets.source_index.parts import IndexedFile
from diffprep_assets.source_look.fields import ROWS_TO_READ, caption_field, flat
from diffprep_resources.errors import SampleReject, SettingError
from diffprep_resources.sources.caption_files import CAPTIONS, caption_suffixes
from diffprep_resources.sources.file_kinds import Kind
from diffprep_resources.sources.hub_folder import HubFolderSource
from diffprep_resources.sources.local_files import MAX_CAPTION_BYTES, read_at, read_file, walk_files
from diffprep_resources.sources.metadata_files import is_metadata, metadata_rows
from diffprep_resources.sources.names import NOUNS, Root, inside, path_to_bytes, split_suffix
from diffprep_resources.sources.parquet_rows import UNREADABLE, caption_column, open_parquet
from diffprep_resources.sources.shapes import Chosen, FolderShape
from diffprep_resources.sources.tar_headers import tar_members
from diffprep_resources.sources.tar_samples import TarIndex, caption_members, tar_index
from diffprep_resources.sources.video_tables import is_video_table
from diffprep_resources.sources.webdataset import fixed_folder

MAX_FIELD_BYTES = 64 << 10


def local_files(dataset: Dataset) -> Chosen | None:
    """What is read of a local folder, by names alone; None for tars and remote sources.

    Raises SettingError where the folder holds nothing to read.
    """
    if isinstance(dataset.source, HubFolderSource):
        return dataset.source.chosen(Counter())
    if dataset.loaded.source_folder is None:
        return None
    folder = str(dataset.loaded.source_folder[1])
    names = list(walk_files(path_to_bytes(folder), skipped=Counter()))
    return FolderShape(folder, caption_suffixes(dataset.field_keys)).chosen(names, read=str.encode)


def caption_places(
    dataset: Dataset, files: list[IndexedFile], kind: Kind, *, rows: list[BucketRow]
) -> dict[str, int]:
    """How many pictures have their caption at each place; those without one under ''.

    By names, over all pictures, where captions are files of their own; else over the opened ones.
    """
    if kind in ("pictures", "clips"):
        captions = _caption_files(dataset, files)
        if not any(path is not None and _is_shared(path) for path in captions.values()):
            noun = NOUNS[dataset.field_keys.media]
            return dict(Counter(_label(captions.get(file.path), noun) for file in files))
        names = sorted({path for path in captions.values() if path is not None})
        place = ", ".join(names[:3]) + (" ..." if len(names) > 3 else "")
    elif kind == "tar":
        place = _tar_field(dataset, files)
    else:
        place = _column(dataset, files)
    found = Counter("" if row.code == "no_caption" else place for row in rows)
    return dict(found)


def _is_shared(path: str) -> bool:
    return is_metadata(path) or is_video_table(path)


def _caption_files(dataset: Dataset, files: list[IndexedFile]) -> dict[str, str | None]:
    if files[0].remote is not None:
        return {file.path: file.remote.caption_path for file in files if file.remote}
    chosen = local_files(dataset)
    return dict(chosen.captions) if chosen else {}


def _label(path: str | None, noun: str) -> str:
    if path is None:
        return ""
    suffix = split_suffix(path)[1]
    return f"captions/*.{suffix}" if path.startswith(CAPTIONS) else f"*.{suffix} beside the {noun}"


def _tar_field(dataset: Dataset, files: list[IndexedFile]) -> str:
    """The members that hold captions, as the first picture of a tar has them."""
    keys = dataset.field_keys
    if keys.chosen_captions:
        return f"field {keys.caption_keys[0]}"
    for _, index in _tars(dataset, files):
        for picture in index.pictures:
            for member, _ in caption_members(index, picture, keys=keys):
                return f"member .{split_suffix(member.name)[1]}"
    return "a member of the tar"


def _column(dataset: Dataset, files: list[IndexedFile]) -> str:
    root = _root(dataset)
    for file in files:
        try:
            with open_parquet(inside(root, file.path)) as table:
                column = caption_column(table.schema_arrow, dataset.field_keys)
        except (*UNREADABLE, SettingError):
            continue
        return "column " + ".".join(part for part in (column.name, column.path) if part)
    return "a column"


def field_of_captions(dataset: Dataset, files: list[IndexedFile], kind: Kind) -> str | None:
    """The field that reads like captions, where the usual names find none; None if there is none.

    As `data_format.caption_key` names it.
    """
    rows = _json_of_tars(dataset, files) if kind == "tar" else _json_of_files(dataset, files)
    return caption_field(islice(rows, ROWS_TO_READ))


def _json_of_tars(dataset: Dataset, files: list[IndexedFile]) -> Iterator[dict[str, Any]]:
    for descriptor, index in _tars(dataset, files):
        for name, member in index.fields.items():
            suffix = split_suffix(name)[1]
            if 0 < member.size <= MAX_FIELD_BYTES:
                data = read_at(descriptor, offset=member.offset, length=member.size)
                yield flat(_parsed(data) if suffix == "json" else _text(data), prefix=suffix)


def _tars(dataset: Dataset, files: list[IndexedFile]) -> Iterator[tuple[int, TarIndex]]:
    """An open descriptor and the index of each tar that is here."""
    for path in _paths(dataset, files):
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except OSError:
            continue
        try:
            yield descriptor, tar_index(tar_members(descriptor), keys=dataset.field_keys)
        finally:
            os.close(descriptor)


def _paths(dataset: Dataset, files: list[IndexedFile]) -> Iterator[bytes]:
    root = _root(dataset)
    return (inside(root, file.path) for file in files)


def _json_of_files(dataset: Dataset, files: list[IndexedFile]) -> Iterator[dict[str, Any]]:
    """Rows of the metadata files, and the content of caption files that are JSON."""
    captions = _caption_files(dataset, files)
    wanted = [captions.get(file.path) for file in files]
    root = _root(dataset)
    for path in dict.fromkeys(path for path in wanted if path is not None):
        if is_metadata(path):
            yield from _metadata(root, path)
        elif split_suffix(path)[1] == "json" and not is_video_table(path):
            try:
                yield flat(_parsed(read_file(root, path, max_bytes=MAX_CAPTION_BYTES)))
            except SampleReject:
                continue


def _metadata(root: Root, path: str) -> Iterable[dict[str, Any]]:
    try:
        for row in islice(metadata_rows(root, path), ROWS_TO_READ):
            yield flat({key: value for key, value in row.items() if key != "file_name"})
    except (*UNREADABLE, SampleReject):
        return


def _root(dataset: Dataset) -> Root:
    """Where the source's files lie: its folder, or where they were fetched to."""
    place = dataset.loaded.source_folder
    if place is not None:
        return path_to_bytes(str(place[1]))
    pattern = dataset.loaded.input_path
    if pattern is not None and not is_remote(pattern):
        return path_to_bytes(fixed_folder(pattern)[0])
    return IndexCatalog(dataset.layout)


def _parsed(data: bytes) -> object:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _text(data: bytes) -> str | None:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None
