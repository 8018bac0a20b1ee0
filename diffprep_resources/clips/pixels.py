"""The pixels of a clip's planned frames, upright, cropped and resized one by one as they come."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from diffprep_resources.clips.crop import crop_box
from diffprep_resources.clips.frame_order import times_by_order
from diffprep_resources.clips.opening import ClipSource, OpenedClip, open_clip, reading_clip
from diffprep_resources.clips.shape import ClipShape, shape_of
from diffprep_resources.errors import SampleReject

if TYPE_CHECKING:
    from av.video.frame import VideoFrame


def read_pixels(
    source: ClipSource, *, wanted_pts: Sequence[int], width: int, height: int
) -> np.ndarray:
    """uint8 [T, height, width, 3]: the frames shown at these times, in this order, as RGB.

    Decodes from the start to the last frame wanted and no further: a seek lands on other frames in
    open groups of pictures, HEVC, fragments and transport streams. Memory holds the result and one
    source frame. Raises SampleReject unreadable_video, saying when, where a wanted frame is
    missing or damaged.
    """
    places: dict[int, list[int]] = {}
    for place, pts in enumerate(wanted_pts):
        places.setdefault(pts, []).append(place)
    pixels_THWC = np.empty((len(wanted_pts), height, width, 3), np.uint8)
    with reading_clip():
        order = times_by_order(source)
        with open_clip(source) as opened:
            fitter: _FrameFitter | None = None
            damaged_s: float | None = None
            for pts, frame in _decoded(opened, order=order):
                if fitter is None:
                    fitter = _FrameFitter(shape_of(frame, opened=opened), to=(width, height))
                damaged_s = _damage(frame, before=damaged_s)
                if pts not in places:
                    continue
                if damaged_s is not None:
                    message = f"the frame at {damaged_s:.3f} s is damaged"
                    raise SampleReject("unreadable_video", message)
                pixels_THWC[places.pop(pts)] = fitter.fitted(frame)
                if not places:
                    return pixels_THWC
            at = float(min(places) * (opened.stream.time_base or 1))
    raise SampleReject(
        "unreadable_video",
        f"{len(places)} of {len(set(wanted_pts))} frames do not decode, the first at {at:.3f} s",
    )


def upright_frame(source: ClipSource, *, pts: int) -> np.ndarray:
    """uint8 [H, W, 3]: the whole frame shown at that time, upright, as wide and as high as a player
    shows it. Raises SampleReject as `read_pixels`."""
    with reading_clip():
        order = times_by_order(source)
        with open_clip(source) as opened:
            for at, frame in _decoded(opened, order=order):
                if at == pts:
                    shape = shape_of(frame, opened=opened)
                    pixels_HWC = shape.orientation.upright(frame.to_ndarray(format="rgb24"))
                    if shape.sar == 1:
                        return pixels_HWC
                    width, height = shape.shown_size
                    return _resized(pixels_HWC, width=width, height=height)
    raise SampleReject("unreadable_video", f"no frame decodes at {pts}")


def _damage(frame: "VideoFrame", *, before: float | None) -> float | None:
    """When the damage began that the frame shows, None for a sound one. What refers to a damaged
    frame looks damaged too and is not marked: all up to the next key frame may."""
    if frame.is_corrupt:
        return frame.time or 0.0
    return None if frame.key_frame else before


def _decoded(
    opened: OpenedClip, *, order: Sequence[int] | None
) -> Iterator[tuple[int | None, "VideoFrame"]]:
    """Each frame with its time, in `order` where that is given. Where FFmpeg cannot go on, the
    reject says up to which time it could."""
    from av.error import FFmpegError

    last_s = 0.0
    times = None if order is None else iter(order)
    try:
        for frame in opened.frames():
            last_s = frame.time or last_s
            yield (frame.pts if times is None else next(times, None)), frame
    except FFmpegError as error:
        raise SampleReject(
            "unreadable_video",
            f"cannot be decoded after {last_s:.3f} s ({type(error).__name__}: {error})",
        ) from error


class _FrameFitter:
    """Turns, crops and resizes frames of one clip, whose first frame gave the shape."""

    def __init__(self, shape: ClipShape, *, to: tuple[int, int]) -> None:
        from av.video.reformatter import VideoReformatter

        self._shape = shape
        self._to = to
        self._reformatter = VideoReformatter()

    def fitted(self, frame: "VideoFrame") -> np.ndarray:
        """uint8 [height, width, 3]."""
        shape = self._shape.of_frame(frame)
        rgb = self._reformatter.reformat(frame, format="rgb24", threads=1)
        pixels_HWC = shape.orientation.upright(rgb.to_ndarray())
        crop = crop_box(shape.width, shape.height, to=self._to, sar=shape.sar)
        cropped = pixels_HWC[crop.top : crop.top + crop.height, crop.left : crop.left + crop.width]
        return _resized(cropped, width=self._to[0], height=self._to[1])


def _resized(pixels_HWC: np.ndarray, *, width: int, height: int) -> np.ndarray:
    """Bilinear with antialiasing and aligned corners, uint8 throughout: what FastVideo does
    (fastvideo/dataset/transform.py, resize), bit for bit."""
    import torch
    from torch.nn.functional import interpolate

    batch = torch.from_numpy(np.ascontiguousarray(pixels_HWC)).permute(2, 0, 1).unsqueeze(0)
    fitted = interpolate(
        batch, size=(height, width), mode="bilinear", align_corners=True, antialias=True
    )
    return fitted[0].permute(1, 2, 0).numpy()
