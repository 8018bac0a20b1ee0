from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

import pytest
import torch

from diffprep_assets.shard.members import SampleMetadata, sample_members
from diffprep_assets.validate.samples import profile_problems
from diffprep_assets.validate.tensors import TensorProfile, inspect_members

METADATA = SampleMetadata("a.jpg", 128, 64, 64, 32, 0, 0, 128, 64, "i", "c")

Draw = Callable[..., dict[str, torch.Tensor]]


def members(
    draw_tensors: Draw,
    changed: Mapping[str, torch.Tensor] = MappingProxyType({}),
    *,
    metadata: SampleMetadata = METADATA,
) -> dict[str, bytes]:
    tensors = draw_tensors(0, width=64, height=32, version="v1", resample=True)
    return dict(sample_members({**tensors, **changed}, caption="c", metadata=metadata))


def test_a_sound_sample_has_no_problem_and_a_profile(draw_tensors: Draw) -> None:
    found = inspect_members(members(draw_tensors), ours=True)
    assert found.problems == ()
    assert found.shape == (16, 4, 8)
    assert isinstance(found.profile, TensorProfile)
    assert found.profile.text_shapes == ((6, 8), (4,))


@pytest.mark.parametrize("name", ["latents", "prompt_embeds", "pooled_prompt_embeds", "mean"])
def test_one_value_everywhere_is_a_problem_but_for_the_log_variance(
    draw_tensors: Draw, name: str
) -> None:
    whole = draw_tensors(0, width=64, height=32, version="v1", resample=True)
    found = inspect_members(members(draw_tensors, {name: torch.ones_like(whole[name])}), ours=True)
    assert found.problems == (f"{name} is 1.0 everywhere",)
    flat = torch.full_like(whole["logvar"], -30)
    assert inspect_members(members(draw_tensors, {"logvar": flat}), ours=True).problems == ()


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["prompt_embeds", "logvar"])
def test_one_value_that_is_not_finite_is_a_problem(
    draw_tensors: Draw, name: str, value: float
) -> None:
    tensor = draw_tensors(0, width=64, height=32, version="v1", resample=True)[name]
    tensor.flatten()[3] = value
    found = inspect_members(members(draw_tensors, {name: tensor}), ours=True)
    assert found.problems == (f"{name} holds NaN or infinity",)


def test_a_posterior_of_another_shape_or_only_half_of_it_is_a_problem(draw_tensors: Draw) -> None:
    other = torch.randn(16, 4, 6)
    assert "mean (16, 4, 6) differs from latents (16, 4, 8)" in str(
        inspect_members(members(draw_tensors, {"mean": other}), ours=True).problems
    )
    half = members(draw_tensors)
    del half["logvar.pth"]
    assert inspect_members(half, ours=True).problems == ("member logvar.pth is missing",)


def test_metadata_is_asked_of_our_samples_only(draw_tensors: Draw) -> None:
    bare = members(draw_tensors)
    del bare["json"], bare["caption.txt"]
    assert inspect_members(bare, ours=False).problems == ()
    assert len(inspect_members(bare, ours=True).problems) == 2


@pytest.mark.parametrize(
    ("data", "words"),
    [(b"{", "cannot be read"), (b"[]", "must hold an object"), (b'{"a": 1}', "exactly source_key")],
)
def test_a_json_member_of_another_form_is_a_problem(
    draw_tensors: Draw, data: bytes, words: str
) -> None:
    found = inspect_members({**members(draw_tensors), "json": data}, ours=True)
    assert words in str(found.problems)


def test_pixels_that_are_no_multiple_of_the_latents_are_a_problem(draw_tensors: Draw) -> None:
    for wrong in (replace(METADATA, width=65), replace(METADATA, height=64)):
        found = inspect_members(members(draw_tensors, metadata=wrong), ours=True)
        assert "json says" in str(found.problems)


def test_a_caption_that_is_not_utf_8_is_a_problem(draw_tensors: Draw) -> None:
    found = inspect_members({**members(draw_tensors), "caption.txt": b"\xff"}, ours=True)
    assert "caption.txt is not UTF-8" in str(found.problems)


def test_samples_of_two_datasets_differ_in_their_profiles(draw_tensors: Draw) -> None:
    first = inspect_members(members(draw_tensors), ours=True).profile
    longer = torch.randn(7, 8).to(torch.bfloat16)
    second = inspect_members(members(draw_tensors, {"prompt_embeds": longer}), ours=True).profile
    assert first is not None
    assert second is not None
    assert profile_problems(first, first) == []
    assert "text_shapes" in str(profile_problems(second, first))
