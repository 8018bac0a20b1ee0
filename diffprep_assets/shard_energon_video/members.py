"""The members of one clip, as the trainers' task encoders read them."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from diffprep_assets.shard_plan.members import Member

# By encode stage, the members that its row becomes, in the order that they stand in the tar.
MEMBERS_OF = {
    "encode_latents": ("latents.pth",),
    "encode_text": ("prompt_embeds.pth",),
    "encode_first_frame": ("first_frame_latents.pth",),
    "encode_clip": ("clip_feature.pth",),
}


@dataclass(frozen=True, slots=True)
class ClipMetadata:
    """What a clip's json member holds. Sizes in pixels; the crop in the upright stored frame, whose
    pixels need not be square. `original_fps` is the file's mean rate, `original_duration` in
    seconds, `fps` the rate at which frames were taken of it; `text_length` in tokens. The same keys
    in every sample, never null."""

    source_key: str
    original_width: int
    original_height: int
    original_fps: float
    original_duration: float
    width: int
    height: int
    num_frames: int
    fps: float
    crop_left: int
    crop_top: int
    crop_width: int
    crop_height: int
    text_length: int
    clip_digest: str
    caption_digest: str


def clip_metadata(member: Member, *, fps: float, text_length: int) -> ClipMetadata:
    """What the json member of a planned clip says."""
    sample = member.planned.sample
    left, top, width, height = sample.crop
    return ClipMetadata(
        source_key=sample.source_key,
        original_width=member.original_width,
        original_height=member.original_height,
        original_fps=float(member.fps or 0),
        original_duration=float(member.duration_s or 0),
        width=sample.bucket.width,
        height=sample.bucket.height,
        num_frames=sample.bucket.frames,
        fps=fps,
        crop_left=left,
        crop_top=top,
        crop_width=width,
        crop_height=height,
        text_length=text_length,
        clip_digest=sample.image_digest,
        caption_digest=sample.caption_digest,
    )


def clip_members(
    tensors: Mapping[str, bytes], *, caption: str, metadata: ClipMetadata
) -> tuple[tuple[str, bytes], ...]:
    """Member names and bytes, in the order that they stand in the tar. `tensors` are those members
    that `MEMBERS_OF` names, as far as the dataset has them."""
    names = [name for group in MEMBERS_OF.values() for name in group if name in tensors]
    return (
        *((name, tensors[name]) for name in names),
        ("caption.txt", caption.encode("utf-8")),
        ("json", clip_metadata_bytes(metadata)),
    )


def clip_metadata_bytes(metadata: ClipMetadata) -> bytes:
    """The json member: sorted keys, UTF-8."""
    return json.dumps(asdict(metadata), sort_keys=True, ensure_ascii=False).encode("utf-8")
