from pathlib import Path

import pytest

from diffprep_assets.layout import Layout
from diffprep_assets.shard.record import (
    SampleRow,
    ShardRecord,
    ShardReject,
    write_record,
    write_samples,
)
from diffprep_assets.shard_plan.plan import Bucket, Candidate, PlannedSample
from diffprep_assets.shard_plan.written import ids_of_file, written_samples

SHARD = "g0-64-64x64-000000"


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """A shard of raw pictures with samples 1 and 2, and 3 left out while it was written."""
    layout = Layout(tmp_path, "set", tmp_path / "out").of("raw")
    layout.shards_folder.mkdir(parents=True)
    layout.shard_file(SHARD).write_bytes(b"tar")
    rows = [SampleRow(number, f"{number}", 0, 1, "d", "l", "t", ()) for number in (1, 2)]
    write_samples(layout.shard_samples(SHARD), rows)
    rejects = (ShardReject("3", 3, "shard_raw", "unreadable_image", "cut short"),)
    record = ShardRecord(SHARD, "f", 64, 64, 64, 0, 2, 3, 3, "d", rejects=rejects)
    write_record(layout.shard_record(SHARD), record)
    return layout


def planned(sample_id: int, shard: str | None) -> PlannedSample:
    sample = Candidate(f"{sample_id}", "", "p00000", "d", "c", Bucket(64, 64, 64), (0, 0, 9, 9))
    return PlannedSample(sample_id, "train", shard, sample)


def test_written_in_one_format_is_written(layout: Layout):
    layouts = [layout.of("energon"), layout]
    samples = [planned(number, SHARD) for number in (1, 3, 4)]
    assert written_samples(layouts, samples) == {1, 3}
    assert written_samples(layouts[:1], samples) == frozenset()


def test_a_sample_that_left_its_shard_is_not_written(layout: Layout):
    assert written_samples([layout], [planned(1, None), planned(2, "other")]) == frozenset()


def test_a_file_that_is_gone_cut_short_or_damaged_is_not_written(layout: Layout):
    assert ids_of_file(layout, SHARD) == {1, 2, 3}
    layout.shard_file(SHARD).write_bytes(b"ta")
    assert ids_of_file(layout, SHARD) == set()
    layout.shard_file(SHARD).write_bytes(b"tar")
    layout.shard_samples(SHARD).write_bytes(b"PAR1" + bytes(40) + b"PAR1")
    assert ids_of_file(layout, SHARD) == set()
