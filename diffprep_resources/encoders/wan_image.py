"""CLIP's vision half over first frames, as Wan's image-to-video models read it. Float32.

What it must equal is diffusers' WanImageToVideoPipeline.encode_image on the same files.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from diffprep_resources.encoders.base import FirstFrameEncoder, RowLayout
from diffprep_resources.encoders.components import Component, Files
from diffprep_resources.encoders.loading import (
    load_model,
    quiet_libraries,
    use_exact_arithmetic,
)
from diffprep_resources.errors import ModelError

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class WanImageFacts:
    """What the config says: tokens (patches and one for the whole) and the width of each."""

    num_tokens: int
    width: int

    def layout(self) -> RowLayout:
        return {"clip_feature": ("float32", (self.num_tokens, self.width))}


def wan_image_facts(files: Files) -> WanImageFacts:
    """Facts of a CLIP vision model. Raises ModelError for another model."""
    config = files.config()
    if config.get("model_type") not in ("clip_vision_model", "clip"):
        raise ModelError(
            f"CLIP vision encoder: {files}: model_type must be clip_vision_model or clip, got "
            f"{config.get('model_type')!r}"
        )
    # A whole CLIP keeps its vision half here; CLIPVisionModel loads that half.
    vision = config.get("vision_config") or config
    side = vision.get("image_size", 224) // vision.get("patch_size", 32)
    return WanImageFacts(num_tokens=side * side + 1, width=vision.get("hidden_size", 768))


class WanImageEncoder(FirstFrameEncoder):
    """`clip_feature`: the hidden states before the last layer, without the norm after it."""

    def __init__(self, component: Component, *, facts: WanImageFacts, device: str) -> None:
        from transformers import CLIPVisionModel

        use_exact_arithmetic()
        self._facts = facts
        self._device = device
        self._processor = _processor(component)
        model = load_model(
            CLIPVisionModel.from_pretrained,
            folder=component.weights.folder(),
            dtype="float32",
            label="CLIP vision encoder",
        )
        self._model: Any = model.to(device)

    def row_layout(self, width: int, height: int, *, num_frames: int) -> RowLayout:
        return self._facts.layout()

    def encode(
        self, pixels_BHWC: np.ndarray, *, num_frames: int, float32: bool = False
    ) -> dict[str, "torch.Tensor"]:
        """Neither `num_frames` nor `float32` makes a difference."""
        import torch
        from PIL import Image

        frames = [Image.fromarray(frame) for frame in pixels_BHWC]
        inputs = self._processor(images=frames, return_tensors="pt")
        with torch.inference_mode():
            output = self._model(inputs["pixel_values"].to(self._device), output_hidden_states=True)
            feature_BLD = output.hidden_states[-2].to("cpu")
        return {"clip_feature": feature_BLD.contiguous().clone()}

    def close(self) -> None:
        self._model = None


def _processor(component: Component) -> Any:
    """Pillow's form of CLIP's preprocessing: torchvision's, which transformers takes where it is
    installed, resizes to other pixels."""
    from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

    if component.tokenizer is None:
        raise ModelError(f"{component.place.label}: it has no preprocessor_config.json")
    folder = component.tokenizer.folder()
    try:
        with quiet_libraries():
            return CLIPImageProcessorPil.from_pretrained(str(folder), local_files_only=True)
    except (OSError, ValueError, KeyError, TypeError) as error:
        label = component.place.label
        raise ModelError(f"{label}: cannot load the preprocessor in {folder}: {error}") from error
