"""Skip lists: files that name samples to leave out, by source key, sample id or digest.

A text file holds one entry a line; blank lines and lines that begin with `#` are passed over. A
parquet file holds them in the column `source_key`, `sample_id`, `image_digest` or `digest`, else in
its only column. A stored list, which `diffprep skip` writes, has a kind and a reason beside each.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

from diffprep_resources.errors import SettingError
from diffprep_resources.storage.atomic import replace_file
from diffprep_resources.storage.parquet_tables import MAGIC, DamagedTableError, readable_table

Kind = Literal["source_key", "sample_id", "digest"]
STORED = pa.schema(
    [
        pa.field("entry", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
    ]
)
MAX_ENTRY = 16_384
_KINDS: dict[str, Kind] = {
    "source_key": "source_key",
    "sample_id": "sample_id",
    "digest": "digest",
}
_COLUMNS: dict[str, Kind] = {
    "source_key": "source_key",
    "sample_id": "sample_id",
    "image_digest": "digest",
    "digest": "digest",
}
_ID = re.compile(r"[0-9]{1,18}")
_DIGEST = re.compile(r"[0-9a-fA-F]{32}")
_ROWS = 16_384


@dataclass(frozen=True, slots=True)
class SkipEntry:
    """One line of a list. A `sample_id` is written in ten digits, a `digest` in small letters."""

    entry: str
    kind: Kind
    reason: str = ""


@dataclass(frozen=True, slots=True)
class SkipList:
    """The distinct entries of a file in its order, and the digest of the file's bytes."""

    entries: tuple[SkipEntry, ...]
    digest: str


def read_skip_list(path: Path) -> SkipList:
    """The entries of a list. Raises SettingError where it is missing or no list, naming the line
    or column."""
    try:
        with path.open("rb") as file:
            is_table = file.read(len(MAGIC)) == MAGIC or path.suffix.lower() == ".parquet"
        digest = content_digest(path)
    except OSError as error:
        raise SettingError(
            f"skip list {path}: cannot be read: {error.strerror}; relative paths of "
            "curate.skip_lists start at the project's folder"
        ) from error
    found: dict[tuple[str, str], SkipEntry] = {}
    for entry in _table_entries(path) if is_table else _text_entries(path):
        found.setdefault((entry.kind, entry.entry), entry)
    return SkipList(tuple(found.values()), digest)


def write_stored_list(path: Path, entries: Iterable[SkipEntry]) -> None:
    """The list at `path`, replaced as a whole; the same entries give the same bytes."""
    rows = sorted((asdict(entry) for entry in entries), key=lambda row: (row["kind"], row["entry"]))
    with replace_file(path) as file:
        pq.write_table(pa.Table.from_pylist(rows, schema=STORED), file, compression="zstd")


def content_digest(path: Path) -> str:
    """32 hex digits of a file's bytes."""
    digest = xxhash.xxh3_128()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def entry_of(text: str, *, reason: str = "") -> SkipEntry:
    """What a text names: digits are a sample id, 32 hex digits a digest, all else a source key."""
    if _ID.fullmatch(text):
        return SkipEntry(f"{int(text):010d}", "sample_id", reason)
    if _DIGEST.fullmatch(text):
        return SkipEntry(text.lower(), "digest", reason)
    return SkipEntry(text, "source_key", reason)


def _text_entries(path: Path) -> Iterator[SkipEntry]:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8").strip()
            except UnicodeDecodeError as error:
                message = f"skip list {path}, line {number}: not UTF-8 text: {error.reason}"
                raise SettingError(message) from error
            if len(text) > MAX_ENTRY or "\0" in text:
                raise SettingError(
                    f"skip list {path}, line {number}: a line holds one source key, sample id or "
                    f"digest, of at most {MAX_ENTRY:,} characters"
                )
            if text and not text.startswith("#"):
                yield entry_of(text)


def _table_entries(path: Path) -> Iterator[SkipEntry]:
    try:
        with readable_table(path), pq.ParquetFile(path) as file:
            names = file.schema_arrow.names
            if names == STORED.names:
                for batch in file.iter_batches(_ROWS):
                    yield from map(_stored, batch.to_pylist())
                return
            column = _column(path, file.schema_arrow)
            for batch in file.iter_batches(_ROWS, columns=[column]):
                yield from _of_column(path, column, batch.column(0).to_pylist())
    except DamagedTableError as error:
        raise SettingError(f"skip list {path}: not a parquet file that can be read") from error


def _stored(row: dict[str, str]) -> SkipEntry:
    return SkipEntry(row["entry"], _KINDS[row["kind"]], row["reason"])


def _column(path: Path, schema: pa.Schema) -> str:
    """The column that holds the entries: one of the known names, else the only one."""
    names = schema.names
    found = [name for name in _COLUMNS if name in names]
    name = found[0] if found else names[0] if len(names) == 1 else None
    if name is None:
        raise SettingError(
            f"skip list {path}: has the columns {names}; one must be {', '.join(_COLUMNS)}, or "
            "there must be only one"
        )
    kind = schema.field(schema.names.index(name)).type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    if not any(is_kind(kind) for is_kind in (*texts, pa.types.is_integer, pa.types.is_null)):
        raise SettingError(
            f"skip list {path}: column {name} is {kind}; it must hold texts or whole numbers"
        )
    return name


def _of_column(path: Path, column: str, values: Iterable[object]) -> Iterator[SkipEntry]:
    """The entries of a column; a name that is known decides what its values are."""
    kind = _COLUMNS.get(column)
    for value in values:
        text = "" if value is None else str(value)
        if not text:
            continue
        entry = SkipEntry(text, kind) if kind == "source_key" else entry_of(text)
        if kind is not None and entry.kind != kind:
            raise SettingError(
                f"skip list {path}: column {column} holds {text!r}, which is no "
                f"{'number' if kind == 'sample_id' else 'digest of 32 hex digits'}"
            )
        yield entry
