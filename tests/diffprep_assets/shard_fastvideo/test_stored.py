"""Rows taken over from a finished FastVideo shard are those that were encoded, bit for bit."""

import numpy as np
import pytest
import torch

from diffprep_assets.encoded_rows import encoded_rows
from diffprep_assets.layout import Layout
from diffprep_assets.shard.record import mark_bad_keys, read_record, read_samples
from diffprep_assets.shard_fastvideo.stored import STORED_NAMES, stored_tensors

SHARD = "g1-16-32x16x5-000000"
TEXT_LENGTH = 12
PRINTS = {"encode_latents": "l", "encode_text": "t", "encode_first_frame": "f", "encode_clip": "c"}


@pytest.mark.parametrize("stage", list(STORED_NAMES))
def test_every_stages_rows_come_back_as_they_were_encoded(
    make_fastvideo_shard, fastvideo_layout: Layout, stage: str
):
    make_fastvideo_shard(0, range(9))
    wanted = {f"{PRINTS[stage]} {number} v1" for number in (0, 8)}
    with encoded_rows(fastvideo_layout, stage, shards=[SHARD], wanted=wanted) as rows:
        for number in (0, 8):
            found = rows.find(f"{PRINTS[stage]} {number} v1")
            assert found is not None
            expected = make_fastvideo_shard.row(number, version="v1").tensors
            for ours, theirs in STORED_NAMES[stage].items():
                tensor, own = found[ours].numpy(), expected[theirs]
                assert tensor.dtype == np.float32
                assert np.array_equal(tensor[: len(own)], own)
        assert rows.find(f"{PRINTS[stage]} 1 v1") is None


def test_a_text_is_padded_to_its_full_length_again(make_fastvideo_shard, fastvideo_layout: Layout):
    make_fastvideo_shard(0, [2])
    record = read_record(fastvideo_layout.shard_record(SHARD))
    (row,) = read_samples(fastvideo_layout.shard_samples(SHARD))
    folder = fastvideo_layout.shard_folder(SHARD)
    assert record is not None
    found = stored_tensors(folder, record, row, stage="encode_text")
    assert found is not None
    assert found["prompt_embeds"].shape == (TEXT_LENGTH, 8)
    assert found["prompt_length"].tolist() == [5]
    assert found["prompt_length"].dtype == torch.int32
    assert not found["prompt_embeds"][5:].any()


def test_a_row_whose_bytes_changed_is_not_taken_over_and_its_neighbour_is(
    make_fastvideo_shard, fastvideo_layout: Layout
):
    make_fastvideo_shard(0, [0, 1])
    (path,) = fastvideo_layout.shard_folder(SHARD).iterdir()
    data = bytearray(path.read_bytes())
    data[600] ^= 0xFF
    path.write_bytes(data)
    wanted = {"l 0 v1", "l 1 v1"}
    with encoded_rows(fastvideo_layout, "encode_latents", shards=[SHARD], wanted=wanted) as rows:
        assert rows.find("l 0 v1") is None
        assert rows.is_damaged("l 0 v1")
        assert rows.find("l 1 v1") is not None


def test_a_row_that_a_validation_marked_is_not_taken_over(
    make_fastvideo_shard, fastvideo_layout: Layout
):
    make_fastvideo_shard(0, [0, 1])
    mark_bad_keys(fastvideo_layout.shard_bad(SHARD), ["0000000001"])
    wanted = {"l 0 v1", "l 1 v1"}
    with encoded_rows(fastvideo_layout, "encode_latents", shards=[SHARD], wanted=wanted) as rows:
        assert rows.find("l 0 v1") is not None
        assert rows.find("l 1 v1") is None
