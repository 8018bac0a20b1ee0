from pathlib import Path

import pyarrow.parquet as pq

from diffprep_assets.bucket.table import BucketRow, bucket_table
from diffprep_assets.rejects import SCHEMA, Reject, bucket_rejects, read_rejects, write_rejects


def rejects(count: int) -> list[Reject]:
    return [
        Reject(
            "encode_latents",
            "non_finite" if number % 3 else "encoder_failed",
            f"sample {number} \u221e",
            f"images/{number}.jpg",
            shard="g0-64-64x64-000000",
            sample_id=number,
            transient=bool(number % 2),
        )
        for number in range(count)
    ]


def test_what_is_written_is_read_back_counted_by_code(tmp_path: Path):
    path = tmp_path / "rejects.parquet"
    written = rejects(5000)
    counts = write_rejects(path, iter(written))
    assert counts == {"non_finite": 3333, "encoder_failed": 1667}
    assert list(read_rejects(path)) == written
    assert pq.read_schema(path).equals(SCHEMA)


def test_a_view_is_replaced_as_a_whole_and_none_is_empty(tmp_path: Path):
    path = tmp_path / "rejects.parquet"
    assert list(read_rejects(path)) == []
    write_rejects(path, rejects(3))
    assert write_rejects(path, []) == {}
    assert path.exists()
    assert list(read_rejects(path)) == []


def test_the_rejects_of_bucket_tables_carry_their_part_and_kept_samples_are_none(tmp_path: Path):
    table = tmp_path / "p00000.parquet"
    bad = BucketRow(
        *("b.jpg", "b.jpg", "b.jpg", "stamp"),
        code="no_caption",
        message="no caption",
        transient=False,
    )
    with bucket_table(table, metadata={}) as rows:
        rows.add([BucketRow("a.jpg", "a.jpg", "a.jpg", "stamp", caption="words"), bad])
    assert list(bucket_rejects([("p00000", table)])) == [
        Reject("bucket", "no_caption", "no caption", "b.jpg", part="p00000")
    ]
