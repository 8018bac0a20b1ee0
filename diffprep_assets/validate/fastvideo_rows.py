"""Whether the rows of one tree can be stacked to batches, and hold what their columns say."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from diffprep_assets.validate.fastvideo_trees import FastVideoTrees
from diffprep_resources.encoders.base import Workload
from diffprep_resources.fastvideo.reading import row_problems, row_values
from diffprep_resources.fastvideo.shapes import TensorShapes

TEXT_LENGTH = 512
"""Tokens that FastVideo pads a text to; it crops what is longer."""
SIZES = ("width", "height", "num_frames")


@dataclass(frozen=True, slots=True)
class TreeProfile:
    """What all rows of a tree share: FastVideo stacks them."""

    sizes: Mapping[str, int]
    shapes: TensorShapes

    @property
    def latents(self) -> tuple[int, ...]:
        return self.shapes["vae_latent"] or ()


def profile_of(trees: FastVideoTrees, tree: str, path: Path) -> TreeProfile | None:
    """The sizes that dataset.json gives the tree, else those of the file's first row, whose tensors
    give the shapes. None for a file without rows."""
    values = next(row_values(path), None)
    if values is None:
        return None
    said = trees.described_trees.get(tree, values)
    sizes = {name: int(said[name]) for name in SIZES}
    latents = tuple(values["vae_latent_shape"] or ())
    width = (tuple(values["text_embedding_shape"] or ()) or (0,))[-1]
    shapes: dict[str, tuple[int, ...] | None] = {
        "vae_latent": latents,
        "text_embedding": (TEXT_LENGTH, width),
    }
    if trees.workload == "i2v":
        shapes["first_frame_latent"] = latents
        shapes["clip_feature"] = tuple(values["clip_feature_shape"] or ()) or None
        picture = (3, sizes["height"], sizes["width"])
        shapes["pil_image"] = picture if values["pil_image_bytes"] else None
    return TreeProfile(sizes, shapes)


def row_failures(
    values: Mapping[str, Any], profile: TreeProfile, *, workload: Workload
) -> Iterator[str]:
    """What is wrong with one row, a sentence each."""
    yield from row_problems(dict(values), workload=workload, shapes=profile.shapes)
    if len(profile.latents) != 4:
        yield f"vae_latent must have 4 dimensions, got {profile.latents}"
    for name in SIZES:
        if values[name] != profile.sizes[name]:
            yield f"{name} is {values[name]}, that of its tree {profile.sizes[name]}"
    if values["media_type"] != "video":
        yield f"media_type must be video, got {values['media_type']!r}"
    if not isinstance(values["caption"], str):
        yield "has no caption"
    rate, seconds = values["fps"], values["duration_sec"]
    if not rate or abs(seconds * rate - values["num_frames"]) > 1e-6 * values["num_frames"]:
        yield f"duration_sec {seconds} is not {values['num_frames']} frames at {rate} fps"
