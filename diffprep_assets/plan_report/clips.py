"""How long a dataset's clips are, and how many of their frames are taken."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from diffprep_assets.plan_report.facts import ClipFacts
from diffprep_assets.plan_report.kept_rows import KeptRows
from diffprep_assets.recipe.video import Video

COLUMNS = ("duration_s", "frames_found")
MOST_KEPT = 0.95


class FrameSums:
    """Frames at the recipe's rate that kept clips have, and those that are taken of them."""

    def __init__(self) -> None:
        self.found = 0
        self.taken = 0

    def add(self, rows: KeptRows) -> None:
        self.found += int(rows.ints("frames_found").sum())
        self.taken += int(rows.ints("num_frames").sum())


def clip_facts(tables: Iterable[Path], *, frames: FrameSums, video: Video) -> ClipFacts:
    """The lengths of all clips of the bucket tables that could be opened, kept or not."""
    opened = [_opened(path) for path in tables]
    seconds = np.concatenate([found[0] for found in opened]) if opened else np.zeros(0)
    counts = np.concatenate([found[1] for found in opened]) if opened else np.zeros(0)
    sampling = video.frame_counts
    fps = float(video.train_fps)
    longest = video.video_length_tolerance_range * max(sampling) / video.train_fps
    limits = {
        "train_fps": fps,
        "fewest_frames": min(sampling),
        "shortest_s": min(sampling) / fps,
        "limit_s": float(longest * video.speed_factor),
        "frames_found": frames.found,
        "frames_taken": frames.taken,
    }
    if not len(seconds):
        return ClipFacts(clips=0, p5_s=0, median_s=0, p95_s=0, longest_s=0, most_fill=0, **limits)
    p5, median, p95 = np.percentile(seconds, [5, 50, 95], method="inverted_cdf").tolist()
    return ClipFacts(
        clips=len(seconds),
        p5_s=p5,
        median_s=median,
        p95_s=p95,
        longest_s=float(seconds.max()),
        most_fill=_most_fill(counts),
        **limits,
    )


def _opened(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Seconds and frames at the recipe's rate of each clip that could be opened."""
    if not set(COLUMNS) <= set(pq.read_schema(path).names):
        return np.zeros(0), np.zeros(0)
    table = pq.read_table(path, columns=list(COLUMNS)).drop_null()
    return tuple(table.column(name).to_numpy() for name in COLUMNS)  # pyright: ignore[reportReturnType] "tuple[ndarray, ...]" is not assignable to "tuple[ndarray, ndarray]"


def _most_fill(counts: np.ndarray) -> int:
    """The largest frame count, a multiple of 4 and one more, that 95% of the clips fill."""
    filled = int(np.percentile(counts, 100 * (1 - MOST_KEPT), method="lower"))
    return max(1, (filled - 1) // 4 * 4 + 1)
