"""Clips drawn for the tests, with the properties that break tools of this kind. PyAV writes them.

Every frame shows its orientation in its corners (red, green, blue, white, clockwise from the top
left: red, green, white, blue) and its number in the grey of its middle (`number_in`).
"""

import io
from dataclasses import dataclass, field, replace
from fractions import Fraction

import av
import numpy as np
from av import logging as av_logging
from av.audio.stream import AudioStream
from av.codec.context import ThreadType
from av.container.output import OutputContainer
from av.stream import Disposition
from av.video.stream import VideoStream

av_logging.set_level(av_logging.PANIC)

RED, GREEN, BLUE, WHITE = (230, 20, 20), (20, 220, 20), (20, 20, 230), (235, 235, 235)
FRAGMENTED = {"movflags": "frag_keyframe+empty_moov"}
# Room for the index in front: without it, a cut file has none.
INDEX_FIRST = {"moov_size": "6000"}
OPEN_GOP = {"x264-params": "open-gop=1:keyint=12:min-keyint=12:scenecut=0:bframes=3:b-adapt=0"}
STEP = 4


@dataclass(frozen=True, slots=True)
class ClipKind:
    """What a clip is to be like. `pts` counts in `time_base`, the frame's number in 1 / fps."""

    frames: int = 24
    width: int = 128
    height: int = 96
    fps: Fraction = Fraction(24)
    format: str = "mp4"
    codec: str = "libx264"
    pix_fmt: str = "yuv420p"
    rotation: int = 0
    hflip: bool = False
    rotate_tag: str | None = None
    sar: Fraction | None = None
    pts: tuple[int, ...] | None = None
    time_base: Fraction | None = None
    options: dict[str, str] = field(default_factory=dict)
    container: dict[str, str] = field(default_factory=dict)
    color_trc: int | None = None
    noisy: bool = False
    audio: bool = False

    def having(self, **changes: object) -> "ClipKind":
        return replace(self, **changes)  # pyright: ignore[reportArgumentType] "object" is not assignable to each field's type


def frame_pixels(number: int, width: int, height: int) -> np.ndarray:
    """uint8 [height, width, 3]: coloured corners, and a middle of grey 4 * number."""
    pixels = np.full((height, width, 3), (STEP * number) % 240, np.uint8)
    quarter = max(2, min(width, height) // 4)
    pixels[:quarter, :quarter], pixels[:quarter, -quarter:] = RED, GREEN
    pixels[-quarter:, :quarter], pixels[-quarter:, -quarter:] = BLUE, WHITE
    return pixels


def number_in(pixels_HWC: np.ndarray) -> int:
    """The number of the frame whose pixels these are; those of a clip of up to 60 frames."""
    height, width, _ = pixels_HWC.shape
    middle = pixels_HWC[height * 3 // 8 : height * 5 // 8, width * 3 // 8 : width * 5 // 8]
    return round(float(middle.mean()) / STEP)


def corners(pixels_HWC: np.ndarray) -> str:
    """The four corners by their initials, clockwise from the top left: upright is `rgwb`."""
    names = {"r": RED, "g": GREEN, "b": BLUE, "w": WHITE}
    at = ((3, 3), (3, -4), (-4, -4), (-4, 3))

    def nearest(colour: np.ndarray) -> str:
        away = {name: np.abs(colour.astype(int) - value).sum() for name, value in names.items()}
        return min(away, key=away.__getitem__)

    return "".join(nearest(pixels_HWC[row, column]) for row, column in at)


def clip(kind: ClipKind | None = None, **changes: object) -> bytes:
    """The bytes of such a clip."""
    kind = (kind or ClipKind()).having(**changes)
    buffer = io.BytesIO()
    with av.open(buffer, "w", format=kind.format, options=kind.container) as container:
        stream = _video_stream(container, kind)
        sound = container.add_stream("aac", rate=16_000, layout="mono") if kind.audio else None
        time_base = kind.time_base or 1 / kind.fps
        for number in range(kind.frames):
            pixels = frame_pixels(number, kind.width, kind.height)
            if kind.noisy:
                pixels[:, ::3] = np.random.default_rng(number).integers(0, 255, (1, 3))
                pixels[::5] ^= np.random.default_rng(number).integers(
                    0, 99, pixels[::5].shape, np.uint8
                )
            frame = av.VideoFrame.from_ndarray(pixels, format="rgb24")
            frame.pts = kind.pts[number] if kind.pts else number
            frame.time_base = time_base
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
        if sound is not None:
            _silence(container, sound, seconds=kind.frames / kind.fps)
    return buffer.getvalue()


def _video_stream(container: OutputContainer, kind: ClipKind) -> VideoStream:
    # With mbtree, x264 165 writes other bytes from run to run.
    steady = {"mbtree": "0"} if kind.codec == "libx264" else {}
    stream = container.add_stream(kind.codec, rate=kind.fps, options={**steady, **kind.options})
    assert isinstance(stream, VideoStream)
    stream.width, stream.height, stream.pix_fmt = kind.width, kind.height, kind.pix_fmt
    context = stream.codec_context
    context.thread_type, context.thread_count = ThreadType.NONE, 1
    context.gop_size, context.max_b_frames = 12, 2
    if kind.sar is not None:
        context.sample_aspect_ratio = kind.sar
    if kind.color_trc is not None:
        context.color_trc = kind.color_trc
    if kind.rotation or kind.hflip:
        stream.set_display_rotation(kind.rotation, kind.hflip)
    if kind.rotate_tag is not None:
        stream.metadata["rotate"] = kind.rotate_tag
    if kind.time_base is not None:
        context.time_base = stream.time_base = kind.time_base
    return stream


def _silence(container: OutputContainer, stream: AudioStream, *, seconds: Fraction) -> None:
    for start in range(0, int(seconds * 16_000), 1024):
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), "fltp", "mono")
        frame.sample_rate, frame.pts, frame.time_base = 16_000, start, Fraction(1, 16_000)
        container.mux(stream.encode(frame))
    container.mux(stream.encode(None))


def sound_only() -> bytes:
    """An mp4 with a second of silence and no picture."""
    buffer = io.BytesIO()
    with av.open(buffer, "w", format="mp4") as container:
        _silence(
            container, container.add_stream("aac", rate=16_000, layout="mono"), seconds=Fraction(1)
        )
    return buffer.getvalue()


def sound_with_cover() -> bytes:
    """An mp4 with silence, and a cover picture, which FFmpeg lists as a video stream."""
    buffer = io.BytesIO()
    with av.open(buffer, "w", format="mp4") as container:
        cover = container.add_stream("mjpeg", rate=1)
        assert isinstance(cover, VideoStream)
        cover.width, cover.height, cover.pix_fmt = 64, 64, "yuvj420p"
        cover.disposition = Disposition.attached_pic
        sound = container.add_stream("aac", rate=16_000, layout="mono")
        frame = av.VideoFrame.from_ndarray(frame_pixels(0, 64, 64), format="rgb24")
        container.mux(cover.encode(frame))
        container.mux(cover.encode(None))
        _silence(container, sound, seconds=Fraction(1))
    return buffer.getvalue()


def without_frames() -> bytes:
    """A fragmented mp4 with a video track of 128 by 96 and not one frame in it."""
    buffer = io.BytesIO()
    with av.open(buffer, "w", format="mp4", options=FRAGMENTED) as container:
        stream = _video_stream(container, ClipKind())
        stream.codec_context.open()
        container.start_encoding()
    return buffer.getvalue()


def from_second_key_frame(data: bytes) -> bytes:
    """The same stream without its first group of pictures, as a recorder that joins late has it."""
    buffer = io.BytesIO()
    with (
        av.open(io.BytesIO(data), "r") as source,
        av.open(buffer, "w", format="mpegts") as container,
    ):
        new = container.add_stream_from_template(source.streams.video[0])
        keys = 0
        for packet in source.demux(video=0):
            keys += packet.is_keyframe
            if packet.dts is not None and keys > 1:
                packet.stream = new
                container.mux(packet)
    return buffer.getvalue()


def starting_late(data: bytes, *, hidden: int, fps: int = 24) -> bytes:
    """The same packets with an edit list that hides the first `hidden` frames."""
    buffer = io.BytesIO()
    with av.open(io.BytesIO(data), "r") as source, av.open(buffer, "w", format="mp4") as container:
        old = source.streams.video[0]
        new = container.add_stream_from_template(old)
        shift = int(Fraction(hidden, fps) / (old.time_base or Fraction(1)))
        for packet in source.demux(old):
            if packet.dts is None or packet.pts is None:
                continue
            packet.pts, packet.dts, packet.stream = packet.pts - shift, packet.dts - shift, new
            container.mux(packet)
    return buffer.getvalue()


def cut(data: bytes, *, share: float) -> bytes:
    return data[: int(len(data) * share)]


def overwritten(data: bytes, *, begin: float, length: int = 400) -> bytes:
    """Bytes of noise at that share of the pictures' data (the mp4's mdat box)."""
    start = data.index(b"mdat") + 4
    box = int.from_bytes(data[start - 8 : start - 4])
    at = start + int((box - 8) * begin)
    noise = np.random.default_rng(0).integers(0, 256, length, dtype=np.uint8).tobytes()
    return data[:at] + noise + data[at + length :]


def of_unknown_codec() -> bytes:
    """An mp4 whose sample description names a codec that nobody has."""
    return clip().replace(b"avc1", b"zzzz")


HTML = b"<!DOCTYPE html><html><body>404 Not Found</body></html>"
