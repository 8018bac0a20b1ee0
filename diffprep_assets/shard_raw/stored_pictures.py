"""Pictures that raw tars hold already, wherever they lie now: found by their fingerprint."""

import logging
from collections.abc import Collection, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import xxhash

from diffprep_assets.encoded_rows import whole_record
from diffprep_assets.layout import Layout
from diffprep_assets.shard.record import SampleRow, bad_keys, read_samples
from diffprep_resources.storage.parquet_tables import DamagedTableError

logger = logging.getLogger(__name__)


class StoredPictures:
    """Of the tars of `shards`, the first before the others: pictures with a fingerprint that is
    `wanted`, and the rejects of `stage`. `layout` is that of the format. Holds no file open."""

    def __init__(
        self, layout: Layout, *, stage: str, shards: Iterable[str], wanted: Collection[str]
    ) -> None:
        self._rows: dict[str, tuple[Path, SampleRow]] = {}
        self._rejects: dict[str, dict[str, Any]] = {}
        of_interest = pc.field("latents_fingerprint").isin(sorted(set(wanted)))
        for shard in dict.fromkeys(shards):
            self._add(layout, stage, shard, of_interest)

    def find(self, fingerprint: str, *, member: str) -> bytes | None:
        """The bytes of the picture's `member`, None where there are none, or where the sample's
        are not those that were written."""
        if fingerprint not in self._rows:
            return None
        path, row = self._rows[fingerprint]
        try:
            with path.open("rb") as file:
                file.seek(row.offset)
                data = file.read(row.size)
        except FileNotFoundError:
            return None
        if xxhash.xxh3_128_hexdigest(data) != row.digest:
            return None
        starts = {part.name: (part.offset - row.offset, part.size) for part in row.parts}
        start, size = starts[member]
        return data[start : start + size]

    def reject(self, fingerprint: str) -> dict[str, Any] | None:
        """Why this very picture was left out before."""
        return None if fingerprint in self._rows else self._rejects.get(fingerprint)

    def _add(self, layout: Layout, stage: str, shard: str, of_interest: pc.Expression) -> None:
        record = whole_record(layout, shard)
        if record is None:
            return
        bad = bad_keys(layout.shard_bad(shard))
        try:
            rows = read_samples(layout.shard_samples(shard), where=of_interest)
        except DamagedTableError as error:
            logger.warning("shard %s: its pictures are read again: %s", shard, error)
            return
        for row in rows:
            if row.key not in bad:
                found = (layout.shard_file(shard), row)
                self._rows.setdefault(row.latents_fingerprint, found)
        for reject in record.rejects:
            if reject.stage == stage:
                self._rejects.setdefault(reject.fingerprint, asdict(reject))
