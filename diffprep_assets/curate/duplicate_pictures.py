"""The pictures that filters left, gathered over all parts, and which of them are duplicates."""

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from diffprep_assets.curate.dedup import Duplicate, duplicates
from diffprep_assets.curate.part_rules import PartRows
from diffprep_assets.layout import Layout
from diffprep_assets.picture_hash.table import read_hashes
from diffprep_assets.recipe.curation import Dedup

SCHEMA = pa.schema(
    [
        pa.field("key", pa.string()),
        pa.field("image_digest", pa.string()),
        pa.field("area", pa.int64()),
        pa.field("planned", pa.bool_()),
        pa.field("hash", pa.uint64()),
    ]
)


class DuplicatePictures:
    """Gathers a row of each picture, however many captions it has. `written` are the source keys of
    samples whose shard is written."""

    def __init__(self, dedup: Dedup, *, layout: Layout, written: pa.Array) -> None:
        self._dedup = dedup
        self._layout = layout
        self._written = written
        self._tables: list[pa.Table] = []

    def add(self, rows: PartRows, places: Iterable[int]) -> None:
        """The samples of a part at these places, those that no filter rejected, in source order."""
        left = rows.table.take(pa.array(list(places), pa.int64()))
        groups = left.column("group").combine_chunks()
        firsts = _firsts(groups)
        planned = np.zeros(len(firsts), bool)
        is_written = pc.call_function(
            "is_in", [left.column("source_key")], pc.SetLookupOptions(value_set=self._written)
        ).to_numpy()
        np.logical_or.at(planned, _numbers(firsts, len(left)), is_written)
        pictures = left.take(pa.array(firsts))
        width, height = (
            pictures.column(name).to_numpy().astype(np.int64)
            for name in ("original_width", "original_height")
        )
        columns = [
            pictures.column("group"),
            pictures.column("image_digest"),
            pa.array(width * height),
            pa.array(planned),
            self._hashes(rows.part, pictures.column("group")),
        ]
        self._tables.append(pa.Table.from_arrays(columns, schema=SCHEMA))

    def _hashes(self, part: str, groups: pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
        if self._dedup.method == "digest":
            return pa.nulls(len(groups), pa.uint64())
        table = read_hashes(self._layout.picture_hash(part))
        known = pc.SetLookupOptions(value_set=table.column("group").combine_chunks())
        places = pc.call_function("index_in", [groups], known)
        return table.column("hash").take(places)

    def found(self) -> dict[str, Duplicate]:
        """Every picture that has a duplicate, kept or not, by its key."""
        table = pa.concat_tables(self._tables) if self._tables else SCHEMA.empty_table()
        dedup = self._dedup
        distance = dedup.max_distance if dedup.method == "phash" else None
        pictures = duplicates(table, max_distance=distance, replace=dedup.replace)
        return {picture.key: picture for picture in pictures}


def _firsts(groups: pa.Array) -> np.ndarray:
    """The places at which another group begins; a picture's captions follow on each other."""
    if not len(groups):
        return np.zeros(0, np.int64)
    codes = groups.dictionary_encode().indices.to_numpy()
    return np.concatenate([[0], np.flatnonzero(codes[1:] != codes[:-1]) + 1]).astype(np.int64)


def _numbers(firsts: np.ndarray, length: int) -> np.ndarray:
    """For each place the number of its group."""
    starts = np.zeros(length, np.int64)
    starts[firsts] = 1
    return np.cumsum(starts) - 1
