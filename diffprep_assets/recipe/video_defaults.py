"""What a recipe with a section `video` has where it says nothing."""

from collections.abc import Mapping
from typing import Any

from diffprep_resources.sources.fields import DEFAULT_VIDEO_KEYS

# Wan 2.1's own repositories in diffusers' form.
MODELS = {
    "t2v": "Wan-AI/Wan2.1-T2V-1.3B-Diffusers",
    "i2v": "Wan-AI/Wan2.1-I2V-14B-480P-Diffusers",
}


def with_video_defaults(data: Mapping[Any, Any]) -> dict[Any, Any]:
    """The recipe as written, with the defaults of clips where it has a section `video`: FastVideo's
    parquet, 64 clips in a shard, Wan in float32, captions cleaned as its pipelines do, and the
    fields that hold clips."""
    video = data.get("video")
    if not isinstance(video, Mapping):
        return dict(data)
    workload = video.get("workload") or "t2v"
    defaults: dict[str, dict[str, Any]] = {
        "output": {"formats": ["fastvideo"], "shard_size": 64},
        "model": {"precision": "fp32", "model_path": MODELS.get(str(workload), MODELS["t2v"])},
        "captions": {"clean": "diffusers"},
    }
    fields = data.get("data_format")
    if not (isinstance(fields, Mapping) and fields.get("image_key")):
        defaults["data_format"] = {"image_keys": list(DEFAULT_VIDEO_KEYS)}
    filled = dict(data)
    for section, values in defaults.items():
        written = data.get(section)
        if written is None or isinstance(written, Mapping):
            own = {key: value for key, value in (written or {}).items() if value is not None}
            filled[section] = {**values, **own}
    return filled
