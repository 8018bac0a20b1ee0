import io
from typing import Any

import numpy as np
import pytest
from PIL import Image

from diffprep_assets.validate.mds_samples import Expected, sample_problems

EXPECTED = Expected((64, 32), "jpg")


def picture(size: tuple[int, int] = (64, 32), image_format: str = "JPEG") -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", size).save(buffer, image_format)
    return buffer.getvalue()


def sample(**changes: Any) -> dict[str, Any]:
    mean_and_std = np.ones((32, 4, 8), np.float32)
    return {
        "image": picture(),
        "width": 64,
        "height": 32,
        "img_latent": mean_and_std,
        "latent_caption_t5": np.zeros((6, 8), np.float16),
        "attention_mask_caption_t5": np.array([1, 1, 0, 0, 0, 0], np.uint8),
        **changes,
    }


def test_a_sound_sample_has_no_problem():
    assert list(sample_problems(sample(), EXPECTED, decode=True)) == []


def test_bit_patterns_are_taken_for_bfloat16():
    ones = np.full((32, 4, 8), 0x3F80, np.uint16)
    assert list(sample_problems(sample(img_latent=ones), EXPECTED, decode=True)) == []
    nans = np.full((32, 4, 8), 0x7FC0, np.uint16)
    assert len(list(sample_problems(sample(img_latent=nans), EXPECTED, decode=True))) == 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"width": 48}, "its bucket has"),
        ({"image": picture((32, 32))}, "its picture is 32x32"),
        ({"image": picture(image_format="PNG")}, "its picture is PNG"),
        ({"image": b"\xff\xd8\xff no picture"}, "cannot be decoded"),
        ({"image": picture()[:400]}, "cannot be decoded"),
        ({"image": "text"}, "no picture"),
        ({"img_latent": np.ones((31, 4, 8), np.float32)}, "2C"),
        ({"img_latent": np.ones((32, 4, 4), np.float32)}, "none of a picture"),
        ({"img_latent": np.zeros((32, 4, 8), np.float32)}, "positive std"),
        ({"img_latent": np.full((32, 4, 8), np.inf, np.float32)}, "not finite"),
        ({"latent_caption_t5": np.full((6, 8), np.nan, np.float16)}, "not finite"),
        ({"attention_mask_caption_t5": np.zeros(6, np.uint8)}, "at least one"),
        ({"attention_mask_caption_t5": np.ones(5, np.uint8)}, "at least one"),
    ],
)
def test_what_a_trainer_cannot_use_is_told(changes: dict[str, Any], words: str):
    problems = list(sample_problems(sample(**changes), EXPECTED, decode=True))
    assert any(words in problem for problem in problems)


def test_without_decoding_only_sizes_and_formats_are_looked_at():
    broken = sample(img_latent=np.full((32, 4, 8), np.inf, np.float32))
    assert list(sample_problems(broken, EXPECTED, decode=False)) == []
