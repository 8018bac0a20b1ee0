"""What resizing does to the samples of each bucket, summed over the bucket tables."""

from dataclasses import dataclass, field

import numpy as np

from diffprep_assets.plan_report.facts import DISTORTED_BEYOND, BucketFacts
from diffprep_assets.plan_report.kept_rows import KeptRows
from diffprep_assets.shard_plan.plan import Bucket

_SUMS = 5


@dataclass(slots=True)
class BucketSums:
    """Sums by bucket: samples, pixels kept, share of pixels lost, upscaled, distorted."""

    sums: dict[Bucket, np.ndarray] = field(default_factory=dict)

    def add(self, rows: KeptRows) -> None:
        values = _row_values(rows)
        for place, sizes in enumerate(rows.buckets.tolist()):
            of_bucket = values[rows.bucket_of == place].sum(axis=0)
            bucket = Bucket(*sizes)
            self.sums[bucket] = self.sums.get(bucket, np.zeros(_SUMS)) + of_bucket

    @property
    def samples(self) -> int:
        return sum(int(sums[0]) for sums in self.sums.values())

    def facts(self) -> dict[Bucket, BucketFacts]:
        """By bucket, the smallest tier first, narrow before wide, short before long."""
        order = sorted(
            self.sums, key=lambda one: (one.tier, one.width / one.height, one.width, one.frames)
        )
        return {bucket: self._facts(bucket) for bucket in order}

    def _facts(self, bucket: Bucket) -> BucketFacts:
        samples, pixels, lost, upscaled, distorted = self.sums[bucket].tolist()
        return BucketFacts(
            tier=bucket.tier,
            width=bucket.width,
            height=bucket.height,
            frames=bucket.frames,
            samples=int(samples),
            share=samples / self.samples,
            megapixels=pixels / samples / 1e6,
            crop_loss=lost / samples,
            upscaled=int(upscaled),
            distorted=int(distorted),
        )


def _row_values(rows: KeptRows) -> np.ndarray:
    """float64 [rows, 5]: what `BucketSums` adds up."""
    kept = rows.ints("crop_width") * rows.ints("crop_height")
    whole = rows.ints("original_width") * rows.ints("original_height")
    grow_x = rows.ints("width") / rows.ints("crop_width")
    grow_y = rows.ints("height") / rows.ints("crop_height")
    # A crop's rounded side is off by less than a pixel; that is no growth.
    upscaled = np.maximum(grow_x, grow_y) > 1.001
    squeezed = np.maximum(grow_x, grow_y) / np.minimum(grow_x, grow_y) > 1 + DISTORTED_BEYOND
    # A clip's stored pixels need not be square: its crop has the bucket's aspect when shown.
    squeezed &= rows.ints("num_frames") == 0
    return np.stack([np.ones(len(rows)), kept, 1 - kept / whole, upscaled, squeezed], axis=1)
