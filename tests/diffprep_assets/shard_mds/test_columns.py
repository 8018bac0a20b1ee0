import numpy as np
import pytest
import torch

from diffprep_assets.shard_mds.columns import (
    MdsColumns,
    array_of,
    picture_columns,
    sample_values,
    text_columns,
)
from diffprep_resources.encoders.base import DtypeName
from diffprep_resources.mds.encodings import encode, float32_of_bf16


@pytest.mark.parametrize(
    ("dtype", "encoding"), [("bfloat16", "bf16"), ("float16", "ndarray"), ("float32", "ndarray")]
)
def test_latents_are_stored_as_prx_reads_them(dtype: DtypeName, encoding: str):
    columns = MdsColumns("jpg", captions=("long",), latents=True, text_latents=True, dtype=dtype)
    assert columns.encodings == {
        "image": "jpeg",
        **dict.fromkeys(("width", "height", "original_width", "original_height"), "int"),
        **dict.fromkeys(("id", "source_key", "caption", "long"), "str"),
        "img_latent": encoding,
        "latent_caption_t5": encoding,
        "latent_caption_clip": encoding,
        "attention_mask_caption_t5": "ndarray",
    }


def test_every_value_fits_its_columns_encoding():
    columns = MdsColumns(
        "webp", captions=("long",), latents=True, text_latents=True, dtype="bfloat16"
    )
    latents = torch.zeros(16, 2, 3, dtype=torch.bfloat16)
    text = {"prompt_embeds": latents[0], "pooled_prompt_embeds": latents[0, 0]}
    values = {
        **sample_values(
            key="0000000001",
            source_key="a.jpg",
            picture=b"RIFF",
            sizes=(64, 32, 128, 64),
            captions={"caption": "a", "long": ""},
        ),
        **picture_columns({"mean": latents, "logvar": latents}),
        **text_columns(text, tokens=2),
    }
    assert values.keys() == columns.encodings.keys()
    for name, encoding in columns.encodings.items():
        assert isinstance(encode(encoding, values[name]), bytes)
    assert (values["width"], values["original_height"]) == (64, 64)


def test_img_latent_is_the_unscaled_mean_and_the_std():
    mean = torch.arange(16 * 6.0).reshape(16, 2, 3)
    logvar = torch.full((16, 2, 3), 2 * float(np.log(3.0)))
    stored = picture_columns({"mean": mean, "logvar": logvar})["img_latent"]
    assert stored.shape == (32, 2, 3)
    assert np.array_equal(stored[:16], mean.numpy())
    assert np.allclose(stored[16:], 3.0)


def test_the_std_of_bf16_is_computed_in_float32():
    logvar = torch.tensor([[[0.3]]], dtype=torch.bfloat16)
    stored = picture_columns({"mean": torch.zeros_like(logvar), "logvar": logvar})["img_latent"]
    wanted = (0.5 * logvar.float()).exp().bfloat16().float().numpy()
    assert stored.dtype == np.uint16
    assert np.array_equal(float32_of_bf16(stored)[1:], wanted)


@pytest.mark.parametrize(("tokens", "marked"), [(1, 1), (3, 3), (9, 4)])
def test_the_mask_marks_the_tokens_that_the_encoder_saw(tokens: int, marked: int):
    text = {"prompt_embeds": torch.zeros(4, 2), "pooled_prompt_embeds": torch.zeros(2)}
    mask = text_columns(text, tokens=tokens)["attention_mask_caption_t5"]
    assert mask.tolist() == [1] * marked + [0] * (4 - marked)


def test_an_array_holds_the_rows_own_values():
    rows = torch.arange(12, dtype=torch.bfloat16).reshape(3, 4).T
    assert np.array_equal(float32_of_bf16(array_of(rows)), rows.float().numpy())
