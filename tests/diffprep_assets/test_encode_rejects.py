"""Whom encoding left out, out of row files and of the finished tar."""

from pathlib import Path
from typing import Any

import pytest

from diffprep_assets.encode_rejects import encode_rejects, left_out
from diffprep_assets.encoded_rows import row_path
from diffprep_assets.layout import Layout
from diffprep_assets.shard.record import ShardRecord, ShardReject, write_record, write_samples
from diffprep_resources.errors import StageInputError
from diffprep_resources.storage.row_file import row_file

SHARD = "g0-64-64x64-000000"
MADE = {"encode_latents": "l", "encode_text": "t"}


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path, "set", tmp_path / "out", "raw")


def reject(stage: str, sample_id: int) -> dict[str, Any]:
    return {
        "source_key": f"{sample_id}.jpg",
        "sample_id": sample_id,
        "stage": stage,
        "code": "not_finite",
        "message": stage,
        "transient": False,
        "fingerprint": "f",
    }


def write_rows(layout: Layout, stage: str, ids: list[int]) -> None:
    metadata = {"fingerprint": MADE[stage], "sample_ids": [], "fingerprints": [], "settings": {}}
    path = row_path(layout, stage, SHARD)
    with row_file(path, rows={"x": ("float32", (1,))}, num_rows=1, metadata=metadata) as rows:
        rows.close(rejects=[reject(stage, sample_id) for sample_id in ids])


def write_tar(layout: Layout, rejects: list[dict[str, Any]]) -> None:
    energon = layout.of("energon")
    energon.shard_file(SHARD).parent.mkdir(parents=True)
    energon.shard_file(SHARD).write_bytes(b"tar")
    write_samples(energon.shard_samples(SHARD), [])
    record = ShardRecord(
        *(SHARD, "f", 64, 64, 64, 0, 0, 3, 3, "d"),
        inputs=MADE,
        rejects=tuple(ShardReject(**row) for row in rejects),
    )
    write_record(energon.shard_record(SHARD), record)


def test_a_sample_that_two_stages_left_out_is_the_first_ones(layout: Layout) -> None:
    write_rows(layout, "encode_latents", [2, 5])
    write_rows(layout, "encode_text", [5, 7])
    found = left_out(layout, SHARD, MADE)
    assert {number: row["stage"] for number, row in found.items()} == {
        2: "encode_latents",
        5: "encode_latents",
        7: "encode_text",
    }


def test_rows_that_went_into_the_tar_tell_it_there(layout: Layout) -> None:
    write_tar(layout, [reject("encode_text", 3)])
    assert list(left_out(layout, SHARD, MADE)) == [3]
    assert [row["sample_id"] for row in encode_rejects(layout, SHARD, MADE)] == [3]


def test_rows_of_other_fingerprints_tell_nothing_and_are_refused(layout: Layout) -> None:
    write_rows(layout, "encode_latents", [1])
    other = {"encode_latents": "other"}
    assert list(encode_rejects(layout, SHARD, other)) == []
    with pytest.raises(StageInputError, match=f"shard {SHARD}: encode_latents is stale"):
        left_out(layout, SHARD, other)


def test_without_encode_stages_nobody_is_left_out(layout: Layout) -> None:
    assert left_out(layout, SHARD, {}) == {}
