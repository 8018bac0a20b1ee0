"""What a clip is and which of its frames are taken, told from its first frame and its packets.

One frame is decoded; the others' times stand in their packets. Decoding all gives the same times,
at forty times the cost.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from diffprep_resources.clips.choose import ChosenFrames, ClipSampling, choose_frames
from diffprep_resources.clips.colour import colour_notes
from diffprep_resources.clips.opening import ClipSource, OpenedClip, open_clip, reading_clip
from diffprep_resources.clips.shape import ClipShape, shape_of
from diffprep_resources.clips.times import FrameTimes, frame_times
from diffprep_resources.clips.wholeness import missing_bytes
from diffprep_resources.errors import SampleReject

if TYPE_CHECKING:
    from av.packet import Packet
    from av.video.frame import VideoFrame


@dataclass(frozen=True, slots=True)
class ClipFacts:
    """A clip as it is: container and codec as FFmpeg names them, shape and times of its frames,
    how many bytes the file lacks at its end, and notes for the report."""

    format: str
    codec: str
    shape: ClipShape
    times: FrameTimes
    missing_bytes: int
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClipInfo:
    """What `bucket` keeps of a clip. `wanted_pts` are the frames to take, in order, in the
    stream's own ticks; some repeat. `how` tells how their number came about."""

    facts: ClipFacts
    wanted_pts: tuple[int, ...]
    how: str


def probe_clip(
    source: ClipSource, *, sampling: ClipSampling, source_key: str, allow_hdr: bool = False
) -> ClipInfo:
    """What the clip is, and the frames to take of it.

    Raises SampleReject unreadable_video, no_video_stream, unsupported_codec, unsupported_colour,
    video_too_short or video_too_long.
    """
    facts = clip_facts(source, allow_hdr=allow_hdr)
    chosen = frames_taken(facts, sampling=sampling, source_key=source_key)
    return ClipInfo(facts, chosen.pts, chosen.how)


def frames_taken(facts: ClipFacts, *, sampling: ClipSampling, source_key: str) -> ChosenFrames:
    """The frames to take of such a clip. Raises SampleReject video_too_short, video_too_long, or
    unreadable_video where too little is left of a file that is cut."""
    try:
        return choose_frames(facts.times, sampling=sampling, source_key=source_key)
    except SampleReject as reject:
        if reject.code == "video_too_short" and facts.missing_bytes:
            message = f"{_cut(facts.missing_bytes)}; what is left: {reject.message}"
            raise SampleReject("unreadable_video", message) from reject
        raise


def clip_facts(source: ClipSource, *, allow_hdr: bool = False) -> ClipFacts:
    """What the clip is. Raises SampleReject as `probe_clip`, but for the two about its length."""
    with reading_clip(), open_clip(source) as opened:
        first, pts = _first_frame_and_times(opened)
        stream = opened.stream
        if pts is None or first.pts is None or stream.time_base is None:
            pts = _decoded_times(source)
        missing = missing_bytes(source)
        if not pts or stream.time_base is None:
            raise SampleReject(
                "unreadable_video", f"its frames carry no times ({opened.container.format.name})"
            )
        return ClipFacts(
            format=opened.container.format.name,
            codec=stream.codec_context.name,
            shape=shape_of(first, opened=opened),
            times=frame_times(
                pts,
                time_base=stream.time_base,
                rates=(stream.average_rate, stream.guessed_rate, stream.base_rate),
            ),
            missing_bytes=missing,
            notes=(
                *([_cut(missing)] if missing else []),
                *colour_notes(first, allow_hdr=allow_hdr),
            ),
        )


def _cut(missing: int) -> str:
    return f"the file is cut: {missing} bytes are missing at its end"


def _first_frame_and_times(opened: OpenedClip) -> tuple["VideoFrame", list[int] | None]:
    """The first frame shown, and the times of all; no times where a packet does not say its own.

    Left out are packets that an edit list hides and those that belong before the first frame, of
    which the decoder makes nothing.
    """
    first: VideoFrame | None = None
    pts: list[int] = []
    timeless = False
    for packet in cast("Iterator[Packet]", opened.container.demux(opened.stream)):
        if first is None:
            first = next(iter(opened.stream.decode(packet)), None)
        if packet.size and not packet.is_discard:
            timeless = timeless or packet.pts is None
            pts.append(packet.pts or 0)
    if first is None:
        raise SampleReject("unreadable_video", f"0 frames; the stream holds {len(pts)} packets")
    begin = first.pts
    if timeless or begin is None:
        return first, None
    return first, [at for at in pts if at >= begin]


def _decoded_times(source: ClipSource) -> list[int]:
    """The times that the decoder gives the frames, where packets do not say theirs."""
    with open_clip(source) as opened:
        return [frame.pts for frame in opened.frames() if frame.pts is not None]
