"""What decides the row of a planned sample, at whichever encode stage."""

from typing import Any

from diffprep_assets.encode_clip.worker import clip_fingerprint
from diffprep_assets.encode_first_frame.worker import first_frame_fingerprint
from diffprep_assets.encode_latents.worker import picture_fingerprint
from diffprep_assets.encode_text.worker import caption_fingerprint
from diffprep_assets.shard_plan.plan import PlannedSample

_OF = {
    "encode_latents": picture_fingerprint,
    "encode_text": caption_fingerprint,
    "encode_first_frame": first_frame_fingerprint,
    "encode_clip": clip_fingerprint,
}


def row_fingerprint(stage: str, planned: PlannedSample, settings: dict[str, Any]) -> str:
    """The fingerprint that the sample's row carries, with the stage's settings."""
    return _OF[stage](planned, settings)
