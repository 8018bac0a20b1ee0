"""A planned clip's frames out of its source, once it is sure that they are those `bucket` saw."""

import numpy as np

from diffprep_assets.encode_latents.pixels import source_changed
from diffprep_assets.shard_plan.members import Member
from diffprep_resources.clips.digest import clip_digest
from diffprep_resources.clips.pixels import read_pixels
from diffprep_resources.sources.base import Source


def clip_pixels(source: Source, member: Member, *, first: int | None = None) -> np.ndarray:
    """uint8 [T, H, W, 3] of the bucket's size: the frames that the plan wants, or the first few.

    The bytes are read through before they are decoded, and never held. Raises SourceChangedError
    for other bytes than `bucket` saw, SampleReject as `read_pixels`, OSError and SourceAccessError
    where the source cannot be reached.
    """
    sample = member.planned.sample
    if sample.clip is None:
        raise ValueError(f"{sample.source_key} is no clip")
    with source.open_media(member.location) as clip:
        if clip_digest(clip) != sample.image_digest:
            raise source_changed(sample)
        return read_pixels(
            clip,
            wanted_pts=sample.clip.wanted_pts[:first],
            width=sample.bucket.width,
            height=sample.bucket.height,
        )
