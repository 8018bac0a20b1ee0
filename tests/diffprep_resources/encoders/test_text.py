import logging
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from diffusers.pipelines.flux.pipeline_flux import FluxPipeline

from diffprep_resources.encoders.base import EncoderFamily
from diffprep_resources.errors import ModelError

Build = Callable[..., EncoderFamily]

CAPTIONS = [
    "a large red circle in the upper left",
    "",
    "Un caf\u00e9 \u4e2d\u6587 <extra_id_3> <|endoftext|> 12345!",
    "a small blue star on the right " * 40,
    "two lines\nand a tab\t  and  spaces ",
]


def reference(pipeline: FluxPipeline, captions: list[str]) -> dict[str, torch.Tensor]:
    with torch.no_grad():
        embeds, pooled, _ = pipeline.encode_prompt(captions, max_sequence_length=64)
    assert embeds is not None
    assert pooled is not None
    return {"prompt_embeds": embeds, "pooled_prompt_embeds": pooled}


def test_embeddings_equal_diffusers_encode_prompt(
    family: Build, pipeline: FluxPipeline, close: Callable
) -> None:
    encoded = family().text_encoder("cpu").encode(CAPTIONS)
    wanted = reference(pipeline, CAPTIONS)
    assert set(encoded) == set(wanted)
    for name, tensor in wanted.items():
        assert close(encoded[name], tensor)


def test_a_caption_alone_equals_diffusers_too(
    family: Build, pipeline: FluxPipeline, close: Callable
) -> None:
    encoder = family().text_encoder("cpu")
    for caption in CAPTIONS:
        encoded = encoder.encode([caption])
        wanted = reference(pipeline, [caption])
        for name, tensor in wanted.items():
            assert close(encoded[name], tensor)


def test_padding_is_attended_to(family: Build) -> None:
    short = family(t5_max_length=16).text_encoder("cpu").encode(CAPTIONS[:1])["prompt_embeds"]
    long = family(t5_max_length=64).text_encoder("cpu").encode(CAPTIONS[:1])["prompt_embeds"]
    assert not torch.allclose(short, long[:, :16], atol=1e-4)


def test_a_row_has_the_same_bytes_whatever_its_place_and_neighbours(family: Build) -> None:
    encoder = family(precision="bf16").text_encoder("cpu")
    first = encoder.encode(CAPTIONS)
    turned = encoder.encode(CAPTIONS[::-1])
    padded = encoder.encode([CAPTIONS[2], "", "", "", ""])
    for name, tensor in first.items():
        assert torch.equal(tensor, turned[name].flip(0))
        assert torch.equal(tensor[2], padded[name][0])


@pytest.mark.parametrize(
    ("precision", "dtype"),
    [("bf16", torch.bfloat16), ("fp16", torch.float16), ("fp32", torch.float32)],
)
def test_rows_have_the_layouts_dtype_and_shape(
    family: Build, precision: str, dtype: torch.dtype
) -> None:
    built = family(precision=precision)
    encoder = built.text_encoder("cpu")
    encoded = encoder.encode(CAPTIONS[:2])
    assert encoder.row_layout() == built.text_layout()
    assert built.text_layout() == {
        "prompt_embeds": (str(dtype).removeprefix("torch."), (64, 32)),
        "pooled_prompt_embeds": (str(dtype).removeprefix("torch."), (32,)),
    }
    for name, (_, shape) in built.text_layout().items():
        tensor = encoded[name]
        assert tensor.dtype == dtype
        assert tuple(tensor.shape) == (2, *shape)
        assert tensor.is_contiguous()
        assert not tensor.is_inference()


def test_a_float32_pass_is_the_float32_result_rounded_once(family: Build) -> None:
    wanted = family().text_encoder("cpu").encode(CAPTIONS)
    got = family(precision="fp16").text_encoder("cpu").encode(CAPTIONS, float32=True)
    for name, tensor in wanted.items():
        assert torch.equal(got[name], tensor.to(torch.float16))


def test_half_precision_equals_diffusers_at_half_precision(
    family: Build, tiny_flux: Path, close: Callable
) -> None:
    half = FluxPipeline.from_pretrained(tiny_flux, local_files_only=True, dtype=torch.float16)
    wanted = reference(half, CAPTIONS)
    got = family(precision="fp16").text_encoder("cpu").encode(CAPTIONS)
    for name, tensor in wanted.items():
        assert torch.equal(got[name], tensor)


def test_token_counts_are_untruncated_and_no_warning_leaks(
    family: Build,
    pipeline: FluxPipeline,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture,
) -> None:
    encoder = family().text_encoder("cpu")
    loggers = [logging.getLogger(name) for name in ("transformers", "diffusers")]
    for logger in loggers:
        logger.addHandler(caplog.handler)
    counts = encoder.token_counts(CAPTIONS)
    encoder.encode(CAPTIONS)
    for logger in loggers:
        logger.removeHandler(caplog.handler)
    assert encoder.token_limits == {"t5": 64, "clip": 77}
    # "a large red circle in the upper left" is 8 words, each one token.
    assert counts["t5"][:2] == [9, 1]
    assert counts["clip"][:2] == [10, 2]
    assert counts["t5"][3] == 7 * 40 + 1
    assert counts["clip"][3] == 7 * 40 + 2
    assert caplog.records == []
    assert capfd.readouterr() == ("", "")


def test_loading_is_quiet(family: Build, capfd: pytest.CaptureFixture) -> None:
    built = family()
    built.text_encoder("cpu")
    built.latents_encoder("cpu")
    assert capfd.readouterr() == ("", "")


def test_another_text_model_is_refused_by_name(family: Build, tiny_flux: Path) -> None:
    with pytest.raises(ModelError, match=r"T5 encoder.*must be t5, got 'clip_text_model'"):
        family(t5_path=str(tiny_flux / "text_encoder"))
