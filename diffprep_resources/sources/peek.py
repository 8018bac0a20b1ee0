"""The beginning of a large remote file, put where the whole would be: enough to look at it.

The file has its full size, with holes where nothing was fetched. Of a tar that is its first
members; of a parquet file the footer, and of its first row group the small columns and the
beginning of the large ones.
"""

import io
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from diffprep_resources.errors import SourceAccessError
from diffprep_resources.hub.polite import polite
from diffprep_resources.sources.transfer import Wanted, version_time_s

_FOOTER_GUESS = 256 << 10
_FOOTER_TAIL = 8


def peek(wanted: Wanted, target: Path, *, most_bytes: int) -> None:
    """`target` with up to about `most_bytes` of the file, as one that was fetched.

    Raises SourceAccessError where the server gives no parts of files, and what it answered.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("wb") as file:
        file.truncate(wanted.size)
        if target.suffix == ".parquet":
            _peek_parquet(wanted, file, most_bytes)
        else:
            _copy(wanted, file, 0, min(most_bytes, wanted.size))
    moment = version_time_s(wanted.version)
    os.utime(target, (moment, moment))


def _peek_parquet(wanted: Wanted, file: io.BufferedWriter, most_bytes: int) -> None:
    start = max(0, wanted.size - _FOOTER_GUESS)
    tail = _copy(wanted, file, start, wanted.size - start)
    length = int.from_bytes(tail[-_FOOTER_TAIL:-4], "little") + _FOOTER_TAIL
    if length > len(tail) and length <= wanted.size:
        tail = _copy(wanted, file, wanted.size - length, length)
    # The reader looks for the magic number at both ends.
    _copy(wanted, file, 0, min(4, wanted.size))
    try:
        metadata = pq.read_metadata(io.BytesIO(b"PAR1" + tail[-length:]))
    except (pa.ArrowException, OSError):
        # The reader that opens the file says what is wrong with it.
        return
    if metadata.num_row_groups == 0:
        return
    group = metadata.row_group(0)
    chunks = [group.column(number) for number in range(group.num_columns)]
    left = most_bytes
    for chunk in sorted(chunks, key=lambda chunk: chunk.total_compressed_size):
        starts = [chunk.data_page_offset, chunk.dictionary_page_offset]
        first = min(offset for offset in starts if offset is not None and offset > 0)
        size = min(left, chunk.total_compressed_size, wanted.size - first)
        if size > 0:
            _copy(wanted, file, first, size)
            left -= size


def _copy(wanted: Wanted, file: io.BufferedWriter, start: int, length: int) -> bytes:
    """The bytes of a range, which now stand in the file too."""
    data = polite(lambda: _range(wanted, start, length), what=wanted.what)
    file.seek(start)
    file.write(data)
    return data


def _range(wanted: Wanted, start: int, length: int) -> bytes:
    found = bytearray()
    with wanted.open_at(start) as body:
        if body.start != start:
            raise SourceAccessError(
                f"{wanted.what}: the server gives whole files only, and this one is too large to "
                f"look into; write the recipe by hand (docs/recipes.md)"
            )
        for chunk in body.chunks:
            found += chunk
            if len(found) >= length:
                break
    return bytes(found[:length])
