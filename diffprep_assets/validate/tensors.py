"""Whether one sample's members hold tensors that a trainer can train on."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from diffprep_assets.shard.members import REQUIRED_TENSORS, RESAMPLE_TENSORS
from diffprep_assets.validate.samples import (
    Profile,
    SampleFindings,
    caption_problems,
    json_member,
)

if TYPE_CHECKING:
    import torch

DIMENSIONS = {"prompt_embeds": 2, "pooled_prompt_embeds": 1}
LATENT_DIMENSIONS = 3
# A fully certain posterior has one log variance everywhere; nothing else may be all one value.
MAY_BE_CONSTANT = frozenset({"logvar"})


@dataclass(frozen=True, slots=True)
class TensorProfile(Profile):
    """Beside the members, dtypes and shapes but for the latents' sides."""

    dtypes: tuple[str, ...]
    channels: int
    text_shapes: tuple[tuple[int, ...], ...]


def inspect_members(members: Mapping[str, bytes], *, ours: bool) -> SampleFindings:
    """Findings for the members (by name without key) of one sample; `ours` asks for all of them."""
    problems = _missing(members, ours=ours)
    tensors = {}
    for name in REQUIRED_TENSORS + RESAMPLE_TENSORS:
        if f"{name}.pth" in members:
            tensor = loaded_tensor(members[f"{name}.pth"], name, problems)
            if tensor is not None:
                tensors[name] = tensor
                wanted = DIMENSIONS.get(name, LATENT_DIMENSIONS)
                problems += tensor_problems(name, tensor, dimensions=wanted)
    metadata = json_member(members, problems, ours=ours)
    problems += caption_problems(members, "caption.txt")
    if problems or "latents" not in tensors:
        return SampleFindings(tuple(problems), metadata=metadata)
    shape = tuple(tensors["latents"].shape)
    problems += _shape_problems(tensors, shape, metadata)
    return SampleFindings(tuple(problems), _profile(members, tensors), shape, metadata)


def _missing(members: Mapping[str, bytes], *, ours: bool) -> list[str]:
    wanted = [f"{name}.pth" for name in REQUIRED_TENSORS]
    if any(f"{name}.pth" in members for name in RESAMPLE_TENSORS):
        wanted += [f"{name}.pth" for name in RESAMPLE_TENSORS]
    if ours:
        wanted += ["caption.txt", "json"]
    return [f"member {name} is missing" for name in wanted if name not in members]


def loaded_tensor(data: bytes, name: str, problems: list[str]) -> "torch.Tensor | None":
    """The tensor that a member holds; None, and a problem, where it cannot be read."""
    from diffprep_resources.trainers.tensors import tensor_from_bytes

    try:
        return tensor_from_bytes(data, name=f"{name}.pth")
    except Exception as error:  # torch.load raises RuntimeError, zip and pickle errors
        problems.append(f"{name}.pth cannot be read: {_first_line(error)}")
        return None


def tensor_problems(name: str, tensor: "torch.Tensor", *, dimensions: int) -> list[str]:
    """Another kind of tensor, a view, NaN, infinity, or one value everywhere."""
    import torch

    if not tensor.is_floating_point() or tensor.dim() != dimensions or tensor.numel() == 0:
        return [
            f"{name} must be a float tensor of {dimensions} dimensions, "
            f"got {tensor.dtype} {tuple(tensor.shape)}"
        ]
    problems = []
    stored, needed = tensor.untyped_storage().nbytes(), tensor.numel() * tensor.element_size()
    if stored != needed:
        problems.append(f"{name} is a view: {stored} bytes stored for {needed} bytes of values")
    if not bool(torch.isfinite(tensor).all()):
        problems.append(f"{name} holds NaN or infinity")
    elif name not in MAY_BE_CONSTANT and bool((tensor == tensor.flatten()[0]).all()):
        problems.append(f"{name} is {tensor.flatten()[0].item()} everywhere")
    return problems


def _shape_problems(
    tensors: Mapping[str, "torch.Tensor"],
    shape: tuple[int, ...],
    metadata: Mapping[str, object] | None,
) -> list[str]:
    _, height, width = shape
    problems = []
    if height % 2 or width % 2:
        problems.append(f"latents must have even sides, got {height} x {width}")
    for name in RESAMPLE_TENSORS:
        if name in tensors and tuple(tensors[name].shape) != shape:
            problems.append(f"{name} {tuple(tensors[name].shape)} differs from latents {shape}")
    return [*problems, *pixel_problems(metadata, width=width, height=height)]


def pixel_problems(
    metadata: Mapping[str, object] | None, *, width: int, height: int
) -> Iterator[str]:
    """Where the json member's sizes are not the same multiple of the latents'."""
    pixels = (metadata or {}).get("width"), (metadata or {}).get("height")
    if isinstance(pixels[0], int) and isinstance(pixels[1], int):
        across, down = divmod(pixels[0], width), divmod(pixels[1], height)
        if across != down or across[1] != 0:
            yield f"json says {pixels[0]}x{pixels[1]} pixels, latents are {width}x{height}"


def _profile(members: Mapping[str, bytes], tensors: Mapping[str, "torch.Tensor"]) -> TensorProfile:
    return TensorProfile(
        members=tuple(sorted(members)),
        dtypes=tuple(f"{name} {tensor.dtype}" for name, tensor in tensors.items()),
        channels=tensors["latents"].shape[0],
        text_shapes=tuple(tuple(tensors[name].shape) for name in DIMENSIONS),
    )


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__} {error}".splitlines()[0]
