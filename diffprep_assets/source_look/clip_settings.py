"""Settings that fit the clips that were seen: their size, and how many frames are taken."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from diffprep_assets.bucket.clip_geometry import sampling_of
from diffprep_assets.bucket.table import BucketRow
from diffprep_assets.recipe.video import Video
from diffprep_assets.source_look.settings import Size

# Takes clips of every length and colour, so that their sizes and lengths are seen.
LOOKING = Video(num_frames=1, video_length_tolerance_range=Fraction(10**9), allow_hdr=True)
FRAMES = 77
FEWEST_FRAMES = 5
# Width to height of the sizes that Wan 2.1 is trained at, 480 pixels high or as many in all.
SHAPES: dict[str, Size] = {"wide": (832, 480), "square": (624, 624), "upright": (480, 832)}
SHARD_SIZE = 64
FILLED = 0.9
ONE_SIZE = 0.9


@dataclass(frozen=True, slots=True)
class VideoChoice:
    """`video` as a recipe writes it, the same as the schema has it, and the reason in words."""

    section: dict[str, object]
    video: Video
    why: str

    def left_out(self, rows: Sequence[BucketRow]) -> Counter[str]:
        """How many of the clips that could be read these settings reject, by code."""
        sampling = sampling_of(self.video)
        counts: Counter[str] = Counter()
        for row in rows:
            if (row.duration_s or 0.0) > float(sampling.longest_s):
                counts["video_too_long"] += 1
            elif (row.frames_found or 0) < min(sampling.frame_counts):
                counts["video_too_short"] += 1
            elif any(note.startswith("HDR") for note in row.notes):
                counts["unsupported_colour"] += 1
        return counts


def video_choice(rows: Sequence[BucketRow]) -> VideoChoice:
    """One size for clips that lie alike, sizes by aspect for others; as many frames as nearly all
    clips fill."""
    rows = [row for row in rows if row.frames_found is not None]
    frames = num_frames([row.frames_found or 0 for row in rows])
    sizes = clip_sizes([shown for row in rows if (shown := shown_size(row)) is not None])
    one: dict[str, object] = {"max_width": sizes[0][0], "max_height": sizes[0][1]}
    size = one if len(sizes) == 1 else {"buckets": {"sizes": [list(size) for size in sizes]}}
    section = {"workload": "t2v", **size, "num_frames": frames, "train_fps": 16}
    seconds = float(frames / LOOKING.train_fps)
    why = f"{seconds:.1f} s of each clip" if rows else "a guess: no clip was read"
    if len(sizes) > 1:
        why += "; a training run reads one size"
    return VideoChoice(section, Video.model_validate(section), why)


def num_frames(found: Sequence[int]) -> int:
    """77, or the largest 4k + 1 below it that nearly all clips have, of frames at 16 a second."""
    if not found:
        return FRAMES
    lower = sorted(found)[int(len(found) * (1 - FILLED))]
    return max(FEWEST_FRAMES, min(FRAMES, (lower - 1) // 4 * 4 + 1))


def clip_sizes(shown: Sequence[Size]) -> list[Size]:
    """The sizes to take, most common first: one where nearly all clips have its shape; smaller
    ones where most clips are."""
    shapes = Counter(min(SHAPES, key=lambda shape: _apart(SHAPES[shape], size)) for size in shown)
    common = [shape for shape, count in shapes.most_common() if count >= 0.05 * len(shown)]
    if not common:
        return [SHAPES["wide"]]
    if shapes[common[0]] >= ONE_SIZE * len(shown):
        common = common[:1]
    sides = sorted(min(size) for size in shown)
    share = min(Fraction(1), Fraction(sides[len(sides) // 4], 480))
    return [_smaller(SHAPES[shape], share) for shape in common]


def shown_size(row: BucketRow) -> Size | None:
    """The size at which a clip or picture is shown, upright."""
    if row.original_width is None or row.original_height is None:
        return None
    sar = Fraction(row.sar or 1)
    width, height = row.original_width * max(sar, 1), row.original_height / min(sar, 1)
    return round(width), round(height)


def _apart(first: Size, second: Size) -> float:
    ratio = first[0] * second[1] / (first[1] * second[0])
    return max(ratio, 1 / ratio)


def _smaller(size: Size, share: Fraction) -> Size:
    width, height = (max(64, round(side * share / 16) * 16) for side in size)
    return width, height
