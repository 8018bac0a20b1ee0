"""The one way in which a clip is opened: what `probe_clip` and `read_pixels` share."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from diffprep_resources.errors import SampleReject
from diffprep_resources.hub.lfs_pointer import LFS_POINTER, is_lfs_pointer

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream

ClipSource = Path | BinaryIO
"""A file's name, or a seekable file (BytesIO, `file_slice`), used by one caller at a time."""

# Containers of clips and of sound. The others of FFmpeg's demuxers include playlists, which open
# the files and addresses that they name, and devices.
_FORMATS = (
    *("mov", "matroska", "avi", "mpegts", "mpeg", "flv", "ogg", "asf", "gif", "ivf", "mxf", "nut"),
    *("h264", "hevc", "mpegvideo", "m4v", "obu", "yuv4mpegpipe", "dv", "apng", "rm", "amr"),
    *("mp3", "wav", "flac", "aac"),
)
_BUFFER_BYTES = 1 << 18


@dataclass(frozen=True, slots=True)
class OpenedClip:
    """A container, and the stream in it that a player would show."""

    container: "InputContainer"
    stream: "VideoStream"

    def frames(self) -> Iterator["VideoFrame"]:
        """Decoded frames in the order in which they are shown."""
        for frame in self.container.decode(self.stream):
            yield cast("VideoFrame", frame)


@contextmanager
def reading_clip() -> Iterator[None]:
    """A block in which whatever FFmpeg raises becomes a SampleReject; errors of the disk do not."""
    from av import error as av_error
    from av import logging as av_logging

    av_logging.set_level(av_logging.PANIC)
    try:
        yield
    except av_error.DecoderNotFoundError as error:
        raise SampleReject("unsupported_codec", _no_decoder()) from error
    except MemoryError as error:
        raise SampleReject(
            "unreadable_video", "not enough memory to decode this clip", transient=True
        ) from error
    except av_error.FFmpegError as error:
        raise SampleReject("unreadable_video", f"cannot be decoded ({_words(error)})") from error


@contextmanager
def open_clip(source: ClipSource) -> Iterator[OpenedClip]:
    """The opened clip; use it inside `reading_clip`.

    Raises SampleReject unreadable_video, no_video_stream or unsupported_codec; OSError where the
    file itself cannot be read.
    """
    import av
    from av import error as av_error

    with _bytes_of(source) as file:
        _check_head(file)
        try:
            container = av.open(
                file,
                "r",
                metadata_errors="replace",
                buffer_size=_BUFFER_BYTES,
                container_options={"format_whitelist": ",".join(_FORMATS)},
            )
        except av_error.FFmpegError as error:
            raise SampleReject("unreadable_video", _not_a_clip(file)) from error
        with container:
            yield OpenedClip(container, _shown_stream(container))


@contextmanager
def _bytes_of(source: ClipSource) -> Iterator[BinaryIO]:
    """The clip as a file at its beginning. FFmpeg is never given a name: it would take a part of
    some names for a protocol, and cannot be given names that are no UTF-8."""
    if isinstance(source, Path):
        with source.open("rb") as file:
            yield file
    else:
        source.seek(0)
        yield source


def _check_head(file: BinaryIO) -> None:
    head = file.read(64)
    file.seek(0)
    if not head:
        raise SampleReject("unreadable_video", "the file is empty (0 bytes)")
    if is_lfs_pointer(head):
        raise SampleReject("unreadable_video", LFS_POINTER)


def _not_a_clip(file: BinaryIO) -> str:
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    head = file.read(64)
    page = ", but HTML or XML" if head.lstrip()[:1] == b"<" else ""
    cut = "; its index is missing: was it cut short?" if head[4:8] == b"ftyp" else ""
    return f"not a clip that can be read{page}{cut}; the {size} bytes begin with {head[:16]!r}"


def _shown_stream(container: "InputContainer") -> "VideoStream":
    """The video stream that FFmpeg finds best; a cover picture is none."""
    from av.stream import Disposition

    streams = [
        stream
        for stream in container.streams.video
        if not stream.disposition & Disposition.attached_pic
    ]
    if not streams:
        raise SampleReject("no_video_stream", _other_streams(container))
    best = container.streams.best("video")
    stream = next((one for one in streams if one is best), streams[0])
    if stream.codec_context is None:
        raise SampleReject("unsupported_codec", _no_decoder())
    # Threads buy little where every core has a worker, and some decoders' frames come late.
    stream.thread_type = "NONE"
    return stream


def _other_streams(container: "InputContainer") -> str:
    covers = len(container.streams.video)
    kinds = [f"{stream.type}" for stream in container.streams if stream.type != "video"]
    found = [*kinds, *["a cover picture"] * covers]
    return f"no video stream; the file holds {', '.join(found) or 'no stream'}"


def _no_decoder() -> str:
    import av

    return f"no decoder for its video codec in PyAV {av.__version__}; convert it to H.264"


def _words(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]
