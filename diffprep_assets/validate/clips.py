"""Whether one sample's members hold the tensors of a clip that a trainer can train on."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from diffprep_assets.shard_energon_video.members import ClipMetadata
from diffprep_assets.validate.samples import SampleFindings, caption_problems, json_member
from diffprep_assets.validate.tensors import (
    TensorProfile,
    loaded_tensor,
    pixel_problems,
    tensor_problems,
)

if TYPE_CHECKING:
    import torch

REQUIRED = {"latents": 4, "prompt_embeds": 2}
OPTIONAL = {"first_frame_latents": 4, "clip_feature": 2}


def inspect_clip(members: Mapping[str, bytes], *, ours: bool) -> SampleFindings:
    """Findings for the members (by name without key) of one clip; `ours` asks for all of them."""
    wanted = [f"{name}.pth" for name in REQUIRED] + (["caption.txt"] if ours else []) + ["json"]
    problems = [f"member {name} is missing" for name in wanted if name not in members]
    tensors: dict[str, torch.Tensor] = {}
    for name, dimensions in (REQUIRED | OPTIONAL).items():
        if f"{name}.pth" in members:
            tensor = loaded_tensor(members[f"{name}.pth"], name, problems)
            if tensor is not None:
                tensors[name] = tensor
                problems += tensor_problems(name, tensor, dimensions=dimensions)
    metadata = json_member(members, problems, ours=ours, kind=ClipMetadata)
    problems += caption_problems(members, "caption.txt")
    if problems or metadata is None:
        return SampleFindings(tuple(problems), metadata=metadata)
    problems += [*_shape_problems(tensors, metadata), *_text_problems(tensors, metadata)]
    profile = TensorProfile(
        members=tuple(sorted(members)),
        dtypes=tuple(f"{name} {tensor.dtype}" for name, tensor in tensors.items()),
        channels=tensors["latents"].shape[0],
        text_shapes=(tuple(tensors["prompt_embeds"].shape),),
    )
    return SampleFindings(tuple(problems), profile, tuple(tensors["latents"].shape), metadata)


def _shape_problems(
    tensors: "Mapping[str, torch.Tensor]", metadata: Mapping[str, object]
) -> Iterator[str]:
    shape = tuple(tensors["latents"].shape)
    _, length, height, width = shape
    yield from pixel_problems(metadata, width=width, height=height)
    first = tensors.get("first_frame_latents")
    if first is not None and tuple(first.shape) != shape:
        yield f"first_frame_latents {tuple(first.shape)} differs from latents {shape}"
    frames = metadata.get("num_frames")
    if not isinstance(frames, int):
        return
    # The first frame has a latent of its own, the others share one among so many.
    after = frames - 1
    if after < 0 or (after % (length - 1) if length > 1 else after) != 0:
        yield f"json says {frames} frames, latents have {length}"


def _text_problems(
    tensors: "Mapping[str, torch.Tensor]", metadata: Mapping[str, object]
) -> Iterator[str]:
    text = tensors["prompt_embeds"]
    length = metadata.get("text_length")
    if not isinstance(length, int) or not 1 <= length <= len(text):
        yield f"json says text_length {length}, prompt_embeds has {len(text)} tokens"
    elif bool(text[length:].count_nonzero()):
        yield f"prompt_embeds is not zero after its {length} tokens"
