"""Token lengths and the length that would do."""

from pathlib import Path

import numpy as np
import pytest

from diffprep_assets.plan_report.facts import LengthChoice, TokenFacts
from diffprep_assets.plan_report.tokens import better_length, token_facts, token_lengths
from diffprep_resources.encoders.base import EncoderSettings
from diffprep_resources.encoders.families import family_for
from diffprep_resources.hub.models import ModelHub

LENGTHS = np.arange(1, 101)


def test_percentiles_are_lengths_of_captions():
    found = token_facts({"t5": LENGTHS}, {"t5": 90})
    assert found == {"t5": TokenFacts(90, 50, 95, 99, 100, 10, 0.1)}
    assert token_facts({"t5": LENGTHS[:0]}, {"t5": 90})["t5"].longest == 0


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (512, LengthChoice(128, 0.0, (512 - 128) * 10 * 7)),
        (96, LengthChoice(128, 0.0, (96 - 128) * 10 * 7)),
        (128, None),
        (100, None),
    ],
)
def test_the_smallest_round_length_that_cuts_few(limit: int, expected: LengthChoice | None):
    assert better_length(LENGTHS, limit=limit, samples=7, bytes_per_token=10) == expected


def test_one_caption_in_a_hundred_is_too_many_to_cut():
    lengths = np.array([10] * 99 + [40])
    found = better_length(lengths, limit=512, samples=1, bytes_per_token=1)
    assert found is not None
    assert found.t5_max_length == 48
    lengths = np.array([10] * 199 + [40])
    found = better_length(lengths, limit=512, samples=1, bytes_per_token=1)
    assert found == LengthChoice(16, 0.005, 496)


def test_no_length_is_named_where_none_would_do():
    assert better_length(np.array([9999]), limit=512, samples=1, bytes_per_token=1) is None
    assert better_length(LENGTHS[:0], limit=512, samples=1, bytes_per_token=1) is None


def test_tokens_are_counted_without_weights(tiny_encoders: Path, tmp_path: Path):
    import shutil

    folder = tmp_path / "flux"
    shutil.copytree(tiny_encoders, folder)
    family = family_for(EncoderSettings(model_path=str(folder), t5_max_length=24), hub=ModelHub())
    for path in folder.rglob("*.safetensors"):
        path.unlink()
    counter = family.token_counter()
    told: list[int] = []
    captions = ["", "a cat", "a cat on a mat " * 50] * 300
    found = token_lengths(captions, counter, report=told.append)
    assert counter.token_limits == {"t5": 24, "clip": 77}
    assert told == [500, 400]
    for lengths in found.values():
        assert len(lengths) == 900
        assert lengths[0] < lengths[1] < 77 < lengths[2]
        assert (lengths[::3] == lengths[0]).all()
