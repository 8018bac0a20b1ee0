"""The bucket table of one part: one row per sample, kept or rejected, in source order."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from diffprep_resources.storage.atomic import replace_file
from diffprep_resources.storage.parquet_tables import readable_table, table_head

ROWS_PER_GROUP = 1024

SCHEMA = pa.schema(
    [
        pa.field("source_key", pa.string(), nullable=False),
        # One split group per picture: captions of one picture never part (DESIGN 6).
        pa.field("group", pa.string(), nullable=False),
        pa.field("code", pa.string()),
        pa.field("message", pa.string()),
        pa.field("transient", pa.bool_()),
        pa.field("notes", pa.list_(pa.string()), nullable=False),
        pa.field("caption", pa.string()),
        pa.field("caption_digest", pa.string()),
        pa.field("image_digest", pa.string()),
        pa.field("original_width", pa.int32()),
        pa.field("original_height", pa.int32()),
        pa.field("tier", pa.int32()),
        pa.field("width", pa.int32()),
        pa.field("height", pa.int32()),
        pa.field("crop_left", pa.int32()),
        pa.field("crop_top", pa.int32()),
        pa.field("crop_width", pa.int32()),
        pa.field("crop_height", pa.int32()),
        pa.field("path", pa.string(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("length", pa.int64(), nullable=False),
        pa.field("row", pa.int64(), nullable=False),
        # Digest of the source file's size and times: unchanged means not read again.
        pa.field("stamp", pa.string(), nullable=False),
        # The rest is of clips, null in a table of pictures.
        pa.field("media", pa.string()),
        pa.field("num_frames", pa.int32()),
        pa.field("wanted_pts", pa.list_(pa.int64())),
        pa.field("sar", pa.string()),
        pa.field("fps", pa.string()),
        pa.field("duration_s", pa.float64()),
        pa.field("frames_found", pa.int32()),
    ]
)


@dataclass(frozen=True, slots=True)
class BucketRow:
    """One sample as `bucket` saw it; a reject when `code` is set.

    Sizes in stored pixels of the upright picture or frame; the crop is in those pixels too. `path`,
    `offset`, `length`, `row` locate its bytes in the source (-1 where it does not apply).

    Of a clip, whose `media` is "clip": `num_frames` frames are taken, shown at `wanted_pts` (ticks
    of its stream); `frames_found` is how many it has at the recipe's train_fps. `sar` is the width
    of a stored pixel divided by its height and `fps` its mean rate, as fractions. None of a
    picture.
    """

    source_key: str
    group: str
    path: str
    stamp: str
    offset: int = -1
    length: int = -1
    row: int = -1
    code: str | None = None
    message: str | None = None
    transient: bool | None = None
    notes: tuple[str, ...] = ()
    caption: str | None = None
    caption_digest: str | None = None
    image_digest: str | None = None
    original_width: int | None = None
    original_height: int | None = None
    tier: int | None = None
    width: int | None = None
    height: int | None = None
    crop_left: int | None = None
    crop_top: int | None = None
    crop_width: int | None = None
    crop_height: int | None = None
    media: str | None = None
    num_frames: int | None = None
    wanted_pts: tuple[int, ...] | None = None
    sar: str | None = None
    fps: str | None = None
    duration_s: float | None = None
    frames_found: int | None = None


@contextmanager
def bucket_table(path: Path, *, metadata: dict[str, Any]) -> Iterator["BucketTableWriter"]:
    """A writer whose table takes the name `path` when the block ends well."""
    schema = SCHEMA.with_metadata({"diffprep": json.dumps(metadata, sort_keys=True)})
    with (
        replace_file(path) as file,
        pq.ParquetWriter(file, schema, compression="zstd") as parquet,
    ):
        writer = BucketTableWriter(parquet, schema)
        yield writer
        writer.flush()


class BucketTableWriter:
    """Collects rows and writes them by the thousand."""

    def __init__(self, parquet: pq.ParquetWriter, schema: pa.Schema) -> None:
        self._parquet = parquet
        self._schema = schema
        self._rows: list[dict[str, Any]] = []

    def add(self, rows: Iterable[BucketRow]) -> None:
        self._rows.extend(asdict(row) for row in rows)
        if len(self._rows) >= ROWS_PER_GROUP:
            self.flush()

    def flush(self) -> None:
        if self._rows:
            self._parquet.write_table(pa.Table.from_pylist(self._rows, schema=self._schema))
            self._rows = []


def read_metadata(path: Path) -> dict[str, Any] | None:
    """The metadata of a whole table; None when there is none."""
    return table_head(path)


def read_rows(path: Path) -> Iterator[BucketRow]:
    """The table's rows, a thousand in memory at a time."""
    names = [column.name for column in fields(BucketRow)]
    with readable_table(path), pq.ParquetFile(path) as file:
        for batch in file.iter_batches(ROWS_PER_GROUP):
            for row in batch.to_pylist():
                # A table from before there were clips has no columns of theirs.
                values = {name: row[name] for name in names if name in row}
                pts = values.get("wanted_pts")
                values["wanted_pts"] = None if pts is None else tuple(pts)
                yield BucketRow(**{**values, "notes": tuple(values["notes"])})


def other_member_counts(paths: Iterable[Path]) -> Counter[str]:
    """What the source files of these tables hold that is neither a picture nor its caption."""
    counts: Counter[str] = Counter()
    for path in paths:
        counts.update((read_metadata(path) or {}).get("other_members", {}))
    return counts


def note_counts(paths: Iterable[Path]) -> Counter[str]:
    """How many kept samples of the tables have each note; numbers in a note play no part."""
    counts: Counter[str] = Counter()
    for path in paths:
        kept = pc.field("code").is_null()
        column = pq.read_table(path, columns=["notes"], filters=kept).column("notes")
        for notes in column.to_pylist():
            counts.update({re.sub(r"\d+", "N", note) for note in notes})
    return counts
