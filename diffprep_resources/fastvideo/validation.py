"""The JSON file that FastVideo's trainers take as `--validation_dataset_file`."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from diffprep_resources.storage import atomic

INFERENCE_STEPS = 50


@dataclass(frozen=True, slots=True)
class ValidationPrompt:
    """A clip that the trainer makes while it trains. The paths are those of a conditioning picture
    or clip, relative to the JSON file; None where there is none."""

    caption: str
    width: int
    height: int
    num_frames: int
    image_path: str | None = None
    video_path: str | None = None


def write_validation_json(path: Path, prompts: Iterable[ValidationPrompt]) -> None:
    """`path` holding the prompts in order, replaced as a whole."""
    atomic.write_bytes(path, validation_bytes(prompts))


def validation_bytes(prompts: Iterable[ValidationPrompt]) -> bytes:
    """The file's content; equal prompts give equal bytes."""
    data = [
        {
            "caption": prompt.caption,
            "image_path": prompt.image_path,
            "video_path": prompt.video_path,
            "num_inference_steps": INFERENCE_STEPS,
            "height": prompt.height,
            "width": prompt.width,
            "num_frames": prompt.num_frames,
        }
        for prompt in prompts
    ]
    text = json.dumps({"data": data}, indent=2, ensure_ascii=False) + "\n"
    return text.encode()
