"""How many samples share their caption with another, in bounded memory."""

from dataclasses import dataclass

import numpy as np

from diffprep_assets.plan_report.kept_rows import KeptRows

MOST_HELD = 4_000_000
"""Captions held as 8 bytes each; of more samples, a part is looked at."""
MOST_OF_ALL = np.uint64(2**64 - 1)


@dataclass(frozen=True, slots=True)
class Repeats:
    """`share` of the samples have a caption that is not theirs alone; the commonest caption's
    hash, and how many samples have it."""

    share: float
    commonest: int | None
    commonest_samples: int
    exact: bool


class RepeatCounter:
    """Takes the caption digests of `samples` samples.

    Beyond `most_held`, it looks at all samples of a part of the captions, which tells the share
    without bias, and at a part of the samples, where a very common caption cannot be missed; the
    larger of the two answers counts.
    """

    def __init__(self, samples: int, *, most_held: int = MOST_HELD) -> None:
        self._samples = samples
        self._exact = samples <= most_held
        part = 1.0 if self._exact else most_held / samples / 2
        self._below = MOST_OF_ALL if self._exact else np.uint64(part * 2**64)
        self._part = part
        self._by_caption: list[np.ndarray] = []
        self._by_sample: list[np.ndarray] = []

    def add(self, rows: KeptRows, sample_hashes: np.ndarray) -> None:
        digests = rows.batch.column("caption_digest").to_pylist()
        hashes = np.array([int(digest[:16], 16) for digest in digests], np.uint64)
        if self._exact:
            self._by_caption.append(hashes)
            return
        self._by_caption.append(hashes[hashes < self._below])
        self._by_sample.append(hashes[sample_hashes < self._below])

    def repeats(self) -> Repeats:
        by_caption = _counted(self._by_caption)
        share, commonest, times = by_caption
        if self._exact:
            return Repeats(share, commonest, times, exact=True)
        sampled_share, sampled, seen = _counted(self._by_sample)
        estimate = round(seen / self._part)
        if estimate > times and seen > 1:
            commonest, times = sampled, estimate
        return Repeats(max(share, sampled_share), commonest, times, exact=False)


def _counted(chunks: list[np.ndarray]) -> tuple[float, int | None, int]:
    """Share of entries that are not alone; the commonest one, and how often it is there."""
    entries = np.concatenate(chunks) if chunks else np.array([], np.uint64)
    if not len(entries):
        return 0.0, None, 0
    captions, counts = np.unique(entries, return_counts=True)
    share = float(counts[counts > 1].sum() / len(entries))
    most = int(counts.argmax())
    return share, int(captions[most]), int(counts[most])
