"""Metadata files of a folder: metadata.jsonl, .csv or .parquet beside or above pictures or clips.

Each row names a picture or clip by `file_name`, relative to the metadata file's folder, and holds
its caption under one of the caption keys. One that several rows name has all their captions.
"""

import codecs
import contextlib
import csv
import io
import json
import posixpath
from collections.abc import Iterable, Iterator, Mapping

import pyarrow.parquet as pq

from diffprep_resources.errors import SampleReject
from diffprep_resources.hub.lfs_pointer import LFS_POINTER, is_lfs_pointer
from diffprep_resources.sources.fields import first_caption
from diffprep_resources.sources.names import Root, composed, inside, is_safe
from diffprep_resources.sources.parquet_rows import UNREADABLE, as_reject

METADATA_NAMES = ("metadata.jsonl", "metadata.csv", "metadata.parquet")
MAX_LINE_BYTES = 16 << 20
_ROWS = 4096
_NAME_KEYS = ("file_name", "image", "image_file_name")
_CLIP_NAME_KEYS = ("video", "video_file_name")
# A longer cell of a CSV is an error; the csv module's own limit, 128 KiB, is a caption's length.
csv.field_size_limit(MAX_LINE_BYTES)


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
    """The raw caption of each picture that the metadata file names, by the picture's composed path.

    Raises SampleReject where the file cannot be read or names no picture; a line that cannot is
    passed over, so that its picture has no caption.
    """
    found: dict[str, list[object]] = {}
    for picture, row in named_rows(root, path):
        found.setdefault(picture, []).append(_as_read(first_caption(row, keys)))
    return {name: texts[0] if len(texts) == 1 else texts for name, texts in found.items()}


def named_rows(root: Root, path: str) -> Iterator[tuple[str, Mapping[str, object]]]:
    """The composed path of a picture and its row, for every row that names one; a name in Windows'
    way comes under both spellings.

    Raises SampleReject where the file cannot be read or names no picture.
    """
    folder = path.rpartition("/")[0]
    named = False
    try:
        for row in metadata_rows(root, path):
            names = list(_names(row))
            named |= bool(names)
            # Windows' backslashes too; a name that really holds one is found as it is written.
            for spelt in {*names, *(name.replace("\\", "/") for name in names)} - {""}:
                picture = composed(posixpath.normpath(posixpath.join(folder, spelt)))
                if is_safe(picture):
                    yield picture, row
    except UNREADABLE as error:
        raise as_reject(error, what=path) from error
    if not named:
        raise SampleReject("no_caption", "no row of it names a picture; file_name does so")


def _names(row: Mapping[str, object]) -> Iterator[str]:
    """The names that a row gives its picture and its clip."""
    for keys in (_NAME_KEYS, _CLIP_NAME_KEYS):
        name = next((row[key] for key in keys if isinstance(row.get(key), str)), None)
        if name is not None:
            yield str(name)


def _as_read(caption: object) -> object:
    """The caption; a text as the bytes that stand in the file, which may not be UTF-8."""
    if isinstance(caption, str) and not caption.isascii():
        with contextlib.suppress(UnicodeEncodeError):
            return caption.encode("utf-8", "surrogateescape")
    return caption


def metadata_rows(root: Root, path: str) -> Iterator[Mapping[str, object]]:
    """The rows of a metadata file; lines that cannot be read are passed over."""
    suffix = path.rpartition(".")[2]
    with open(inside(root, path), "rb") as file:
        if is_lfs_pointer(file.peek(64)):
            raise SampleReject("unreadable_file", LFS_POINTER)
        if suffix == "parquet":
            yield from _parquet_rows(file)
        elif suffix == "csv":
            yield from _csv_rows(_text(file, newline=""))
        else:
            yield from _json_lines(_text(file, newline="\n"))


def _text(file: io.BufferedReader, *, newline: str) -> Iterable[str]:
    """The file's text; a byte that is not UTF-8 as Python keeps it, a lone surrogate."""
    is_wide = file.peek(2)[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    encoding = "utf-16" if is_wide else "utf-8-sig"
    return io.TextIOWrapper(file, encoding, errors="surrogateescape", newline=newline)


def _csv_rows(text: Iterable[str]) -> Iterator[Mapping[str, object]]:
    try:
        yield from csv.DictReader(text)
    except csv.Error as error:
        raise ValueError(str(error)) from error


def _parquet_rows(file: io.BufferedReader) -> Iterator[Mapping[str, object]]:
    with pq.ParquetFile(file, pre_buffer=False) as table:
        names = [
            field.name
            for field in table.schema_arrow
            if not _is_binary(str(field.type)) or field.name in (*_NAME_KEYS, *_CLIP_NAME_KEYS)
        ]
        for batch in table.iter_batches(_ROWS, columns=names, use_threads=False):
            yield from batch.to_pylist()


def _is_binary(kind: str) -> bool:
    return "binary" in kind


def _json_lines(text: Iterable[str]) -> Iterator[Mapping[str, object]]:
    for line in text:
        if len(line) > MAX_LINE_BYTES or not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict):
            yield row


def metadata_reject(path: str, error: SampleReject) -> SampleReject:
    """The reject of one picture whose metadata file cannot be read."""
    return SampleReject("no_caption", f"{path}: {error.message}", transient=error.transient)
