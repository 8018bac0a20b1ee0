"""The members of one sample, pre-encoded or raw, as the trainers' task encoders read them."""

import io
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from diffprep_assets.shard_plan.members import Member

if TYPE_CHECKING:
    import torch

REQUIRED_TENSORS = ("latents", "prompt_embeds", "pooled_prompt_embeds")
RESAMPLE_TENSORS = ("mean", "logvar")


@dataclass(frozen=True, slots=True)
class SampleMetadata:
    """What a sample's json member holds. Sizes in pixels; the crop in the upright original.

    Every sample has every key, never null: `datasets` fixes the schema from the first samples and
    drops or rounds what differs.
    """

    source_key: str
    original_width: int
    original_height: int
    width: int
    height: int
    crop_left: int
    crop_top: int
    crop_width: int
    crop_height: int
    image_digest: str
    caption_digest: str


def metadata_of(member: Member) -> SampleMetadata:
    """What the json member of a planned sample says, in whichever format."""
    sample = member.planned.sample
    left, top, width, height = sample.crop
    return SampleMetadata(
        source_key=sample.source_key,
        original_width=member.original_width,
        original_height=member.original_height,
        width=sample.bucket.width,
        height=sample.bucket.height,
        crop_left=left,
        crop_top=top,
        crop_width=width,
        crop_height=height,
        image_digest=sample.image_digest,
        caption_digest=sample.caption_digest,
    )


def sample_members(
    tensors: Mapping[str, "torch.Tensor"], *, caption: str, metadata: SampleMetadata
) -> tuple[tuple[str, bytes], ...]:
    """Member names and bytes, in the order that they stand in the tar.

    `tensors` holds `latents` [C, h, w], `prompt_embeds` [L, D], `pooled_prompt_embeds` [P], and in
    resample mode `mean` and `logvar` [C, h, w]. ValueError when one is missing or unknown.
    """
    names = tensor_names(tensors)
    members = [(f"{name}.pth", tensor_bytes(tensors[name])) for name in names]
    members.append(("caption.txt", caption.encode("utf-8")))
    members.append(("json", metadata_bytes(metadata)))
    return tuple(members)


def raw_members(
    picture: bytes, *, image_format: str, caption: str, metadata: SampleMetadata
) -> tuple[tuple[str, bytes], ...]:
    """The same of a raw sample: the picture's member is named for its format."""
    text = caption.encode("utf-8")
    return ((image_format, picture), ("txt", text), ("json", metadata_bytes(metadata)))


def tensor_names(tensors: Mapping[str, object]) -> tuple[str, ...]:
    """The names of `tensors` in tar order. ValueError unless they are one of the two whole sets."""
    for names in (REQUIRED_TENSORS, REQUIRED_TENSORS + RESAMPLE_TENSORS):
        if set(tensors) == set(names):
            return names
    raise ValueError(
        f"a sample's tensors must be {', '.join(REQUIRED_TENSORS)}, with both or neither of "
        f"{', '.join(RESAMPLE_TENSORS)}; got {', '.join(sorted(tensors))}"
    )


def tensor_bytes(tensor: "torch.Tensor") -> bytes:
    """`torch.save` of a plain, contiguous copy: a saved view would carry its whole batch along."""
    import torch

    plain = tensor.detach().to("cpu").clone(memory_format=torch.contiguous_format)
    buffer = io.BytesIO()
    torch.save(plain, buffer)
    return buffer.getvalue()


def metadata_bytes(metadata: SampleMetadata) -> bytes:
    """The json member: sorted keys, UTF-8."""
    return json.dumps(asdict(metadata), sort_keys=True, ensure_ascii=False).encode("utf-8")
