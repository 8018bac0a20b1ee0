"""How a stored frame is to be turned so that it stands as a player shows it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from av.video.frame import VideoFrame


@dataclass(frozen=True, slots=True)
class Orientation:
    """What is done to stored pixels, in this order: transposed, mirrored left to right, flipped
    top to bottom. The eight combinations are all orientations there are."""

    transposed: bool = False
    mirrored: bool = False
    flipped: bool = False

    def upright(self, pixels_HWC: np.ndarray) -> np.ndarray:
        """The turned pixels: a view of the same memory, perhaps not contiguous."""
        if self.transposed:
            pixels_HWC = pixels_HWC.swapaxes(0, 1)
        if self.mirrored:
            pixels_HWC = pixels_HWC[:, ::-1]
        return pixels_HWC[::-1] if self.flipped else pixels_HWC


# By clockwise quarter turns, as the old `rotate` tag counts.
_TURNS = (
    Orientation(),
    Orientation(transposed=True, mirrored=True),
    Orientation(mirrored=True, flipped=True),
    Orientation(transposed=True, flipped=True),
)


def orientation_of(frame: "VideoFrame", *, metadata: Mapping[str, str]) -> Orientation:
    """By the frame's display matrix or, where it has none, the stream's `rotate` tag.

    `frame.rotation` does not tell a mirrored picture from one upside down, and a Matroska file
    gives the tag's name in capitals.
    """
    matrix = _display_matrix(frame)
    if matrix is not None:
        return _of_matrix(matrix)
    tags = {name.lower(): value for name, value in metadata.items()}
    try:
        degrees = float(tags.get("rotate", "0"))
        return _TURNS[round(degrees / 90) % 4]
    except (ValueError, OverflowError):
        return Orientation()


def _display_matrix(frame: "VideoFrame") -> np.ndarray | None:
    """The nine integers of the frame's display matrix, read of a tiny copy: in PyAV 18 a frame
    whose side data was looked at belongs to a cycle, and holds its pixels until the garbage
    collector comes by (seen: 900 MB more for 77 frames of 4K)."""
    from av.video.reformatter import VideoReformatter

    tiny = VideoReformatter().reformat(frame, width=16, height=16, format="gray", threads=1)
    matrix = tiny.side_data.get("DISPLAYMATRIX")
    return None if matrix is None else np.frombuffer(bytes(matrix), np.int32)


def _of_matrix(values: np.ndarray) -> Orientation:
    """Of nine integers, rows (a, b, u), (c, d, v), ...: x' = a x + c y and y' = b x + d y, as
    FFmpeg's display.h has it. Other angles count as the nearest quarter turn."""
    a, b, c, d = (int(values[at]) for at in (0, 1, 3, 4))
    if abs(a) >= abs(b):
        return Orientation(mirrored=a < 0, flipped=d < 0)
    return Orientation(transposed=True, mirrored=c < 0, flipped=b < 0)
