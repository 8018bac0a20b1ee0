"""The size of a clip's frames, upright, in stored and in shown pixels."""

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from diffprep_resources.clips.opening import OpenedClip
from diffprep_resources.clips.orientation import Orientation, orientation_of

if TYPE_CHECKING:
    from av.video.frame import VideoFrame


@dataclass(frozen=True, slots=True)
class ClipShape:
    """`width` and `height` are stored pixels of the upright frame, without a codec's padding.
    `sar` is the width of one such pixel divided by its height."""

    width: int
    height: int
    sar: Fraction
    orientation: Orientation

    @property
    def shown_size(self) -> tuple[int, int]:
        """Width and height in square pixels: the side that is stored too coarsely is stretched."""
        if self.sar >= 1:
            return round(self.width * self.sar), self.height
        return self.width, round(self.height / self.sar)

    def of_frame(self, frame: "VideoFrame") -> "ClipShape":
        """The shape of a later frame: some clips change their size on the way."""
        width, height = frame.width, frame.height
        if self.orientation.transposed:
            width, height = height, width
        return replace(self, width=width, height=height)


def shape_of(frame: "VideoFrame", *, opened: OpenedClip) -> ClipShape:
    """The shape that the first decoded frame gives the clip."""
    orientation = orientation_of(frame, metadata=opened.stream.metadata)
    # 0/1 and a negative one say that the shape of pixels is not known.
    stored = opened.stream.sample_aspect_ratio
    sar = stored if stored is not None and stored > 0 else Fraction(1)
    shape = ClipShape(0, 0, 1 / sar if orientation.transposed else sar, orientation)
    return shape.of_frame(frame)
