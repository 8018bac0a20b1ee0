"""Members of samples that finished shards hold already, wherever they lie now: found by the
fingerprint of what they were made from."""

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import xxhash

from diffprep_assets.encoded_rows import whole_record
from diffprep_assets.freshness import FORMAT_VERSIONS
from diffprep_assets.layout import Layout
from diffprep_assets.shard.record import SampleRow, bad_keys, read_samples
from diffprep_resources.storage.parquet_tables import DamagedTableError

logger = logging.getLogger(__name__)


class StoredMembers:
    """Of the finished shards of `shards`, the first before the others: samples whose fingerprint in
    `column` is `wanted`, and the rejects of `stage`, which is the one that wrote them. `layout` is
    that of the format. Holds no file open.

    What another version of the stage wrote is left alone.
    """

    def __init__(
        self,
        layout: Layout,
        *,
        stage: str,
        shards: Iterable[str],
        wanted: Collection[str],
        column: str = "latents_fingerprint",
    ) -> None:
        self._column = column
        self._rows: dict[str, tuple[Path, SampleRow]] = {}
        self._rejects: dict[str, dict[str, Any]] = {}
        of_interest = pc.field(column).isin(sorted(set(wanted)))
        for shard in dict.fromkeys(shards):
            self._add(layout, stage, shard, of_interest)

    def find(self, fingerprint: str) -> Mapping[str, bytes] | None:
        """The bytes of the sample's members by name, None where there are none, or where they are
        not those that were written."""
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
        starts = [(part.name, part.offset - row.offset, part.size) for part in row.parts]
        return {name: data[start : start + size] for name, start, size in starts}

    def reject(self, fingerprint: str) -> dict[str, Any] | None:
        """Why this very sample was left out before."""
        return None if fingerprint in self._rows else self._rejects.get(fingerprint)

    def _add(self, layout: Layout, stage: str, shard: str, of_interest: pc.Expression) -> None:
        record = whole_record(layout, shard)
        if record is None:
            return
        now = FORMAT_VERSIONS[stage]
        if record.settings.get(stage, {}).get(f"{stage}.format", now) != now:
            return
        bad = bad_keys(layout.shard_bad(shard))
        try:
            rows = read_samples(layout.shard_samples(shard), where=of_interest)
        except DamagedTableError as error:
            logger.warning("shard %s is made from its sources again: %s", shard, error)
            return
        for row in rows:
            if row.key not in bad:
                found = (layout.shard_file(shard), row)
                self._rows.setdefault(getattr(row, self._column), found)
        for reject in record.rejects:
            if reject.stage == stage:
                self._rejects.setdefault(reject.fingerprint, asdict(reject))
