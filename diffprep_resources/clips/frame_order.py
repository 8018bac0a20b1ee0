"""The times of frames in a container that keeps no presentation times.

An AVI file says only in which order its frames are decoded, so FFmpeg gives a packet's place as its
presentation time. With B-frames (H.264 in AVI) frames then come out of the decoder with each
other's times; what is right is their order.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, cast

from diffprep_resources.clips.opening import ClipSource, open_clip

if TYPE_CHECKING:
    from av.packet import Packet


def times_by_order(source: ClipSource) -> list[int] | None:
    """The time of each frame in the order in which frames are shown, where times go by order only;
    None for every clip whose frames say their own. Use it inside `reading_clip`."""
    if not _is_avi(source):
        return None
    with open_clip(source) as opened:
        if not opened.stream.codec_context.has_b_frames:
            return None
        times: list[int] = []
        waits: set[int] = set()
        for packet in cast("Iterator[Packet]", opened.container.demux(opened.stream)):
            if not packet.size or packet.is_discard:
                continue
            if packet.pts is None or packet.dts is None:
                return None
            times.append(packet.pts)
            waits.add(packet.pts - packet.dts)
        # Frames that are shown in another order than decoded wait for different times.
        return sorted(times) if len(waits) == 1 else None


def _is_avi(source: ClipSource) -> bool:
    if isinstance(source, Path):
        with source.open("rb") as file:
            head = file.read(12)
    else:
        source.seek(0)
        head = source.read(12)
    return head[:4] == b"RIFF" and head[8:] == b"AVI "
