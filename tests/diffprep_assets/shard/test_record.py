from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from diffprep_assets.shard.record import (
    SampleRow,
    ShardRecord,
    ShardReject,
    read_record,
    read_samples,
    sample_columns,
    write_record,
    write_samples,
)
from diffprep_assets.shard.tar_writer import TarPart

RECORD = ShardRecord(
    shard="g1-512-352x704-000003",
    fingerprint="f" * 32,
    tier=512,
    width=352,
    height=704,
    number=3,
    num_samples=2,
    size_bytes=10240,
    end_offset=2048,
    digest="d" * 32,
    inputs={"encode_text": "t", "encode_latents": "l"},
    settings={"model.precision": "bf16", "output": [1, None]},
    rejects=(
        ShardReject("a/\u00e9.jpg", 7, "encode_latents", "non_finite", "NaN", transient=True),
    ),
)
ROWS = [
    SampleRow(5, "0000000005", 0, 1024, "a" * 32, "l5", "t5", (TarPart("json", 512, 2),)),
    SampleRow(2**40, "1099511627776", 1024, 1024, "b" * 32, "l", "t", (TarPart("json", 1536, 0),)),
]


def test_a_record_comes_back_equal(tmp_path: Path) -> None:
    write_record(tmp_path / "shards" / "k.json", RECORD)
    assert read_record(tmp_path / "shards" / "k.json") == RECORD


def test_equal_records_give_equal_bytes_whatever_the_order_of_inputs(tmp_path: Path) -> None:
    write_record(tmp_path / "a.json", RECORD)
    turned = dict(reversed(list(RECORD.inputs.items())))
    write_record(tmp_path / "b.json", replace(RECORD, inputs=turned))
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"version": 1}', b'{"version": 99, "rejects": []}']
)
def test_a_torn_or_foreign_record_counts_as_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "k.json").write_bytes(content)
    assert read_record(tmp_path / "k.json") is None
    assert read_record(tmp_path / "missing.json") is None


def test_sample_rows_come_back_equal_and_in_order(tmp_path: Path) -> None:
    write_samples(tmp_path / "k.parquet", ROWS)
    assert read_samples(tmp_path / "k.parquet") == ROWS
    assert sample_columns(tmp_path / "k.parquet", "key", "offset") == (
        ["0000000005", "1099511627776"],
        [0, 1024],
    )


def test_equal_rows_give_equal_bytes(tmp_path: Path) -> None:
    write_samples(tmp_path / "a.parquet", ROWS)
    write_samples(tmp_path / "b.parquet", ROWS)
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()


def test_a_shard_whose_samples_were_all_rejected_has_no_rows(tmp_path: Path) -> None:
    write_samples(tmp_path / "k.parquet", [])
    assert read_samples(tmp_path / "k.parquet") == []
    assert pq.read_schema(tmp_path / "k.parquet").field("offset").type == "int64"
