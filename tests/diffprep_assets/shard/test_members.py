import io
import json
from collections.abc import Callable

import pytest
import torch

from diffprep_assets.shard.members import SampleMetadata, sample_members, tensor_bytes

METADATA = SampleMetadata(
    source_key="images/\u00e9.jpg",
    original_width=100,
    original_height=80,
    width=64,
    height=32,
    crop_left=0,
    crop_top=15,
    crop_width=100,
    crop_height=50,
    image_digest="a" * 32,
    caption_digest="b" * 32,
)


def load(data: bytes) -> torch.Tensor:
    return torch.load(io.BytesIO(data), weights_only=True)


@pytest.fixture
def tensors(draw_tensors: Callable[..., dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    return draw_tensors(0, width=64, height=32, version="v1", resample=True)


def test_a_row_of_a_batch_is_stored_with_its_own_bytes_only() -> None:
    batch = torch.randn(8, 16, 32, 32).to(torch.bfloat16)
    loaded = load(tensor_bytes(batch[3]))
    assert torch.equal(loaded, batch[3])
    assert loaded.untyped_storage().nbytes() == 16 * 32 * 32 * 2
    assert len(tensor_bytes(batch[3])) < 16 * 32 * 32 * 2 + 4096


def test_a_transposed_or_differentiable_tensor_is_stored_plain() -> None:
    tensor = torch.randn(4, 6, requires_grad=True).T
    loaded = load(tensor_bytes(tensor))
    assert torch.equal(loaded, tensor)
    assert loaded.is_contiguous()
    assert not loaded.requires_grad


def test_presampled_members_stand_in_the_documented_order(tensors: dict) -> None:
    names = ("latents", "prompt_embeds", "pooled_prompt_embeds")
    chosen = {name: tensors[name] for name in names}
    members = sample_members(chosen, caption="a cat", metadata=METADATA)
    assert [name for name, _ in members] == [
        "latents.pth",
        "prompt_embeds.pth",
        "pooled_prompt_embeds.pth",
        "caption.txt",
        "json",
    ]
    for name in names:
        loaded = load(dict(members)[f"{name}.pth"])
        assert loaded.dtype == torch.bfloat16
        assert torch.equal(loaded, tensors[name])


def test_resample_members_carry_the_raw_posterior_too(tensors: dict) -> None:
    members = dict(sample_members(tensors, caption="", metadata=METADATA))
    assert torch.equal(load(members["mean.pth"]), tensors["mean"])
    assert torch.equal(load(members["logvar.pth"]), tensors["logvar"])
    assert members["caption.txt"] == b""


def test_json_holds_exactly_the_documented_keys(tensors: dict) -> None:
    members = dict(sample_members(tensors, caption="\u00e9", metadata=METADATA))
    content = json.loads(members["json"])
    assert set(content) == {
        "source_key",
        "original_width",
        "original_height",
        "width",
        "height",
        "crop_left",
        "crop_top",
        "crop_width",
        "crop_height",
        "image_digest",
        "caption_digest",
    }
    assert content["source_key"] == "images/\u00e9.jpg"
    assert content["crop_top"] == 15
    assert members["caption.txt"] == "\u00e9".encode()


def test_equal_tensors_give_equal_bytes(tensors: dict) -> None:
    again = {name: tensor.clone() for name, tensor in tensors.items()}
    assert sample_members(tensors, caption="c", metadata=METADATA) == sample_members(
        again, caption="c", metadata=METADATA
    )


@pytest.mark.parametrize("missing", ["latents", "mean"])
def test_a_missing_tensor_is_refused_by_name(tensors: dict, missing: str) -> None:
    del tensors[missing]
    with pytest.raises(ValueError, match="with both or neither of mean, logvar"):
        sample_members(tensors, caption="", metadata=METADATA)
