"""What a clip's colour means for 8-bit sRGB pixels: noted, or refused."""

from typing import TYPE_CHECKING

from diffprep_resources.errors import SampleReject

if TYPE_CHECKING:
    from av.video.frame import VideoFrame

# Transfer functions and primaries by their numbers in ITU-T H.273, which FFmpeg uses.
_HDR_TRANSFERS = {16: "PQ (SMPTE ST 2084)", 18: "HLG (ARIB STD-B67)"}
_WIDE_PRIMARIES = {9: "BT.2020", 11: "DCI-P3", 12: "Display P3"}


def colour_notes(frame: "VideoFrame", *, allow_hdr: bool) -> tuple[str, ...]:
    """What a person should know of how the frame becomes 8-bit RGB.

    Its matrix and range are heeded; its transfer function and primaries are taken for those of
    ordinary video. Raises SampleReject unsupported_colour for HDR, unless it is allowed.
    """
    notes: list[str] = []
    transfer = _HDR_TRANSFERS.get(int(frame.color_trc))
    if transfer is not None:
        if not allow_hdr:
            raise SampleReject(
                "unsupported_colour",
                f"its colours are HDR, {transfer}, and would come out grey and flat; convert the "
                "clip to SDR (BT.709) first",
            )
        notes.append(f"HDR, {transfer}: taken without tone mapping")
    depth = max((component.bits for component in frame.format.components), default=8)
    if depth > 8:
        notes.append(f"{depth}-bit samples reduced to 8")
    primaries = _WIDE_PRIMARIES.get(int(frame.color_primaries))
    if primaries is not None:
        notes.append(f"primaries {primaries} taken for BT.709")
    if frame.interlaced_frame:
        notes.append("interlaced: both fields taken as one frame")
    return tuple(notes)
