"""One pass over the bucket tables that collects all that a plan shows, in bounded memory."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from diffprep_assets.plan_report.bucket_sums import BucketSums
from diffprep_assets.plan_report.clips import FrameSums
from diffprep_assets.plan_report.curation import LeftOut
from diffprep_assets.plan_report.kept_rows import KeptRows, ShownRow, kept_rows
from diffprep_assets.plan_report.repeats import RepeatCounter
from diffprep_assets.plan_report.seeded_choice import SeededChoice
from diffprep_assets.plan_report.sizes import TextBytes
from diffprep_assets.shard_plan.plan import Bucket

SEED = 0
CAPTIONS_COUNTED = 10_000
SHOWN_PER_BUCKET = 24


class TablePass:
    """Sums over kept rows, `captions` to count tokens of, and `chosen` rows to show, by bucket."""

    def __init__(self, tables: Iterable[Path], *, samples: int, without: LeftOut) -> None:
        self.sums = BucketSums()
        self.frames = FrameSums()
        self.text = TextBytes()
        self.captions: SeededChoice[str] = SeededChoice(CAPTIONS_COUNTED)
        self.chosen: dict[Bucket, SeededChoice[ShownRow]] = {}
        self.repeats = RepeatCounter(samples)
        self.empty = 0
        for rows in kept_rows(tables, without=without):
            self._add(rows)

    def _add(self, rows: KeptRows) -> None:
        hashes = rows.hashes(SEED)
        captions = rows.batch.column("caption")
        self.sums.add(rows)
        self.frames.add(rows)
        self.text.add(rows)
        self.repeats.add(rows, hashes)
        self.empty += int((rows.lengths("caption") == 0).sum())
        self.captions.offer(hashes, lambda number: captions[number].as_py())
        for place, sizes in enumerate(rows.buckets.tolist()):
            choice = self.chosen.setdefault(Bucket(*sizes), SeededChoice(SHOWN_PER_BUCKET))
            of_bucket = np.flatnonzero(rows.bucket_of == place).tolist()
            choice.offer(
                hashes[of_bucket], lambda number, places=of_bucket: rows.row(places[number])
            )


def caption_with(tables: Iterable[Path], digest_start: int, *, without: LeftOut) -> str | None:
    """The caption whose digest begins with these 64 bits."""
    wanted = f"{digest_start:016x}"
    for rows in kept_rows(tables, without=without):
        digests = rows.batch.column("caption_digest").to_pylist()
        for number, digest in enumerate(digests):
            if digest.startswith(wanted):
                return rows.batch.column("caption")[number].as_py()
    return None
