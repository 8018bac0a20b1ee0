"""The shapes that a dataset's tensors have, as the encoders' configs give them."""

from collections.abc import Mapping

from diffprep_resources.encoders.base import ClipEncoderFamily, Workload

TensorShapes = Mapping[str, tuple[int, ...] | None]
"""By tensor; None for one that every row leaves empty. That of `text_embedding` is the longest."""

# What the encoders' rows are called in FastVideo's files.
FASTVIDEO_NAMES = {
    "latents": "vae_latent",
    "prompt_embeds": "text_embedding",
    "clip_feature": "clip_feature",
    "first_frame_latents": "first_frame_latent",
}


def tensor_shapes(
    family: ClipEncoderFamily, *, width: int, height: int, num_frames: int, workload: Workload
) -> TensorShapes:
    """The shapes of one row. The first frame itself is always there for image-to-video."""
    layouts = {**family.latents_layout(width, height, num_frames=num_frames)}
    layouts |= family.text_layout()
    if workload == "i2v":
        layouts |= family.first_frame_layout(width, height, num_frames=num_frames)
        if family.has_image_features:
            layouts |= family.image_layout(width, height, num_frames=num_frames)
    found = {
        theirs: layouts[ours][1] for ours, theirs in FASTVIDEO_NAMES.items() if ours in layouts
    }
    if workload == "t2v":
        return found
    return {"clip_feature": None, **found, "pil_image": (3, height, width)}
