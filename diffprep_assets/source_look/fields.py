"""Which field of a source holds the caption, and which the picture, where the usual names do not.

Fields are named as `data_format` names them: a column, a tar member's suffix, or a dotted path
into JSON.
"""

import itertools
import json
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from diffprep_resources.errors import SettingError
from diffprep_resources.sources.fields import field_keys
from diffprep_resources.sources.names import Media
from diffprep_resources.sources.parquet_rows import (
    UNREADABLE,
    caption_column,
    image_column,
    open_parquet,
)

CAPTION_WORDS = ("caption", "prompt", "text", "description", "desc", "alt", "title", "label")
NO_CAPTION_WORDS = ("file", "path", "url", "hash", "md5", "sha", "license", "author", "date", "id")
ROWS_TO_READ = 32
DEEPEST = 4

Row = Mapping[str, Any]


def table_keys(path: Path, *, media: Media) -> dict[str, str]:
    """`image_key` and `caption_key` of a parquet file, those that the default keys do not find."""
    try:
        with open_parquet(str(path).encode("utf-8", "surrogateescape")) as file:
            schema = file.schema_arrow
            found = {}
            if not _finds(image_column, schema, media):
                found["image_key"] = _picture_column(schema)
            if not _finds(caption_column, schema, media):
                found["caption_key"] = caption_field(_text_rows(file, schema))
    except UNREADABLE:
        # The reader's own words on a damaged file are better.
        return {}
    return {key: value for key, value in found.items() if value is not None}


def _finds(column: Any, schema: pa.Schema, media: Media) -> bool:
    try:
        column(schema, field_keys(media=media))
    except SettingError:
        return False
    return True


def _picture_column(schema: pa.Schema) -> str | None:
    """The first column that holds bytes, or structs with bytes."""
    for field in schema:
        kind = field.type
        if pa.types.is_struct(kind) and kind.get_field_index("bytes") >= 0:
            return field.name
        if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
            return field.name
    return None


def _text_rows(file: Any, schema: pa.Schema) -> Iterator[Row]:
    """A few rows, pictures left out."""
    names = [field.name for field in schema if "binary" not in str(field.type)]
    if file.metadata.num_row_groups == 0 or not names:
        return
    batches = file.iter_batches(ROWS_TO_READ, row_groups=[0], columns=names, use_threads=False)
    for batch in itertools.islice(batches, 1):
        for row in batch.to_pylist():
            yield flat(row)


def flat(value: object, *, prefix: str = "", depth: int = 0) -> dict[str, Any]:
    """Texts and lists of texts in nested objects, by dotted path. Text that is a JSON object is
    looked into, as `data_format` does."""
    if isinstance(value, str) and value.lstrip().startswith("{"):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {prefix: value}
    if isinstance(value, Mapping):
        found: dict[str, Any] = {}
        for key, inner in value.items() if depth < DEEPEST else ():
            path = f"{prefix}.{key}" if prefix else str(key)
            found |= flat(inner, prefix=path, depth=depth + 1)
        return found
    texts = value if isinstance(value, list) else [value]
    return {prefix: value} if texts and all(isinstance(text, str) for text in texts) else {}


def caption_field(rows: Iterable[Row]) -> str | None:
    """The field that reads like captions: by its name first, then by its texts; None if none."""
    texts: dict[str, list[str]] = {}
    for row in itertools.islice(rows, ROWS_TO_READ):
        for name, value in row.items():
            text = value[0] if isinstance(value, list) else value
            if text.strip():
                texts.setdefault(name, []).append(text)
    ranked = sorted((_rank(name, found), name) for name, found in texts.items())
    return next((name for rank, name in ranked if rank[0] <= len(CAPTION_WORDS)), None)


def _rank(name: str, texts: Sequence[str]) -> tuple[int, float]:
    """Lower is better. A name without a caption's word counts if its texts are sentences."""
    last = name.rpartition(".")[2].lower()
    words = statistics.median(len(text.split()) for text in texts)
    for place, word in enumerate(CAPTION_WORDS):
        if word in last and not any(bad in last for bad in ("file", "path", "url", "id")):
            return place, -words
    distinct = len(set(texts)) > len(texts) / 2
    excluded = any(word in last for word in NO_CAPTION_WORDS)
    return (len(CAPTION_WORDS) if words >= 3 and distinct and not excluded else 99), -words
