"""What a cell of a parquet file holds: a picture or clip, or the path of one; or a caption."""

import os
from dataclasses import dataclass

import pyarrow as pa

from diffprep_resources.errors import SampleReject
from diffprep_resources.sources.base import Location
from diffprep_resources.sources.local_files import (
    MAX_IMAGE_BYTES,
    check_file,
    file_status,
    read_file,
)
from diffprep_resources.sources.names import NOUNS, Media, Root, inside


@dataclass(frozen=True, slots=True)
class CellPlace:
    """The row of a cell in a file below `root`, which holds pictures or clips."""

    root: Root
    location: Location
    media: Media


def bytes_in_cell(value: object, place: CellPlace) -> bytes:
    """The bytes in a cell, or of the file that it names. Raises SampleReject."""
    found = media_in_cell(value, place)
    return found if isinstance(found, bytes) else read_file(place.root, found)


def check_cell(value: object, place: CellPlace) -> None:
    """Raises SampleReject, as `bytes_in_cell`, and reads no file."""
    found = media_in_cell(value, place)
    if isinstance(found, str):
        check_file(place.root, found)


def media_in_cell(value: object, place: CellPlace) -> bytes | str:
    """The bytes in a cell, or the path below the root of the file that it names.

    Raises SampleReject where there is neither.
    """
    location, path = place.location, value
    if isinstance(value, dict):
        path = value.get("path")
        value = value.get("bytes")
    if isinstance(value, bytes):
        if len(value) > MAX_IMAGE_BYTES:
            message = f"{len(value)} bytes, at most {MAX_IMAGE_BYTES} are read"
            raise SampleReject("too_large", message)
        return value
    if not isinstance(path, str) or not path:
        noun = NOUNS[place.media]
        raise SampleReject("no_image", f"row {location.row} of {location.path} has no {noun}")
    if "://" in path:
        message = f"{path} is an address, not a file of the dataset; it is not fetched"
        raise SampleReject("source_missing", message)
    beside = f"{os.path.dirname(location.path)}/{path}".lstrip("/")
    for candidate in (path, beside):
        if file_status(inside(place.root, candidate)) is not None:
            return candidate
    message = f"{path} is not in the dataset's folder"
    raise SampleReject("source_missing", message, transient=True)


def scalar_value(scalar: pa.Scalar, *, where: str) -> object:
    """The value of a cell. Raises SampleReject for text that is not UTF-8."""
    try:
        return scalar.as_py()
    except UnicodeDecodeError as error:
        raise SampleReject("caption_encoding", f"{where} is not UTF-8: {error.reason}") from error
