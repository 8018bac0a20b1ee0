"""Metadata files of an image folder: metadata.jsonl, .csv or .parquet beside or above pictures.

Each row names a picture by `file_name`, relative to the metadata file's folder, and holds its
caption under one of the caption keys.
"""

import csv
import io
import json
import posixpath
from collections.abc import Iterable, Iterator, Mapping

import pyarrow.parquet as pq

from diffprep_resources.errors import SampleReject
from diffprep_resources.hub.lfs_pointer import LFS_POINTER, is_lfs_pointer
from diffprep_resources.sources.fields import first_caption
from diffprep_resources.sources.names import Root, inside, is_safe
from diffprep_resources.sources.parquet_rows import UNREADABLE, as_reject

METADATA_NAMES = ("metadata.jsonl", "metadata.csv", "metadata.parquet")
MAX_LINE_BYTES = 16 << 20
_ROWS = 4096
_NAME_KEYS = ("file_name", "image", "image_file_name")


def is_metadata(path: str) -> bool:
    """Whether a path is that of a metadata file."""
    return path.rpartition("/")[2] in METADATA_NAMES


def metadata_of(picture: str, known: Mapping[str, object] | frozenset[str]) -> str | None:
    """The metadata file, among the `known` paths, that speaks of a picture: the nearest above."""
    folder = picture
    while folder:
        folder = folder.rpartition("/")[0]
        for name in METADATA_NAMES:
            path = f"{folder}/{name}" if folder else name
            if path in known:
                return path
    return None


def captions_of(root: Root, path: str, keys: tuple[str, ...]) -> dict[str, object]:
    """The raw caption of each picture that the metadata file names, by the picture's path.

    Raises SampleReject where the file cannot be read; a line that cannot is passed over, so that
    its picture has no caption.
    """
    folder = path.rpartition("/")[0]
    found: dict[str, object] = {}
    try:
        for row in metadata_rows(root, path):
            name = next((row[key] for key in _NAME_KEYS if isinstance(row.get(key), str)), None)
            picture = posixpath.normpath(posixpath.join(folder, str(name))) if name else ""
            if is_safe(picture):
                found[picture] = first_caption(row, keys)
    except UNREADABLE as error:
        raise as_reject(error, what=path) from error
    return found


def metadata_rows(root: Root, path: str) -> Iterator[Mapping[str, object]]:
    """The rows of a metadata file; lines that cannot be read are passed over."""
    suffix = path.rpartition(".")[2]
    with open(inside(root, path), "rb") as file:
        if is_lfs_pointer(file.peek(64)):
            raise SampleReject("unreadable_file", LFS_POINTER)
        if suffix == "parquet":
            yield from _parquet_rows(file)
        elif suffix == "csv":
            text = io.TextIOWrapper(file, "utf-8-sig", errors="replace", newline="")
            yield from csv.DictReader(text)
        else:
            yield from _json_lines(file)


def _parquet_rows(file: io.BufferedReader) -> Iterator[Mapping[str, object]]:
    with pq.ParquetFile(file, pre_buffer=False) as table:
        names = [
            field.name
            for field in table.schema_arrow
            if not _is_binary(str(field.type)) or field.name in _NAME_KEYS
        ]
        for batch in table.iter_batches(_ROWS, columns=names, use_threads=False):
            yield from batch.to_pylist()


def _is_binary(kind: str) -> bool:
    return "binary" in kind


def _json_lines(file: Iterable[bytes]) -> Iterator[Mapping[str, object]]:
    for line in file:
        if len(line) > MAX_LINE_BYTES or not line.strip():
            continue
        try:
            row = json.loads(line.removeprefix(b"\xef\xbb\xbf"))
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict):
            yield row


def metadata_reject(path: str, error: SampleReject) -> SampleReject:
    """The reject of one picture whose metadata file cannot be read."""
    return SampleReject("no_caption", f"{path}: {error.message}", transient=error.transient)
