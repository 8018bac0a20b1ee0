"""A shard's parquet files and the list of them, which takes its place whole."""

import json
import os

import pytest

from diffprep_assets.encoded_rows import whole_record
from diffprep_assets.layout import Layout
from diffprep_assets.shard.commit import finish_commit
from diffprep_assets.shard.record import read_samples
from diffprep_assets.shard_fastvideo import chunks
from diffprep_assets.shard_fastvideo.files import read_files, remove_unlisted
from diffprep_resources.fastvideo.reading import read_rows

SHARD = "g1-16-32x16x5-000000"


def ids(layout: Layout) -> list[list[int]]:
    """By file, in order, the ids of the rows that the list names."""
    folder = layout.shard_folder(SHARD)
    files = read_files(layout.shard_file(SHARD)) or ()
    return [[int(r.id) for r in read_rows(folder / f.name, workload="i2v")] for f in files]


def test_ten_samples_and_eight_a_file_make_two_files_with_ten_rows(
    make_fastvideo_shard, fastvideo_layout: Layout
):
    make_fastvideo_shard(0, range(10))
    assert ids(fastvideo_layout) == [list(range(8)), [8, 9]]
    files = list(read_files(fastvideo_layout.shard_file(SHARD)) or ())
    assert [file.num_rows for file in files] == [8, 2]
    rows = read_samples(fastvideo_layout.shard_samples(SHARD))
    assert [(row.parts[0].name, row.offset) for row in rows[7:9]] == [
        (files[0].name, 7),
        (files[1].name, 0),
    ]
    assert whole_record(fastvideo_layout, SHARD) is not None


def test_the_same_rows_give_the_same_files(make_fastvideo_shard, fastvideo_layout: Layout):
    make_fastvideo_shard(0, range(3))
    before = fastvideo_layout.shard_file(SHARD).read_bytes()
    make_fastvideo_shard(0, range(3))
    assert fastvideo_layout.shard_file(SHARD).read_bytes() == before


def test_a_shard_without_samples_has_no_file(make_fastvideo_shard, fastvideo_layout: Layout):
    make_fastvideo_shard(0, [])
    record = whole_record(fastvideo_layout, SHARD)
    assert record is not None
    assert (record.num_samples, record.size_bytes) == (0, 0)
    assert list(fastvideo_layout.shard_folder(SHARD).iterdir()) == []


@pytest.mark.parametrize("damage", ["gone", "short"])
def test_a_shard_whose_file_is_gone_or_cut_is_not_whole(
    make_fastvideo_shard, fastvideo_layout: Layout, damage: str
):
    make_fastvideo_shard(0, range(3))
    (path,) = fastvideo_layout.shard_folder(SHARD).iterdir()
    path.unlink() if damage == "gone" else os.truncate(path, 100)
    assert whole_record(fastvideo_layout, SHARD) is None


def test_a_kill_between_two_files_leaves_the_old_shard_and_the_next_run_clears_up(
    make_fastvideo_shard, fastvideo_layout: Layout, monkeypatch: pytest.MonkeyPatch
):
    make_fastvideo_shard(0, range(10))
    old, record = ids(fastvideo_layout), whole_record(fastvideo_layout, SHARD)
    whole, calls = chunks.write_rows, []

    def killed_at_second(*args, **kwargs):
        calls.append(1)
        if len(calls) == 2:
            raise RuntimeError("killed")
        return whole(*args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(chunks, "write_rows", killed_at_second)
        with pytest.raises(RuntimeError, match="killed"):
            make_fastvideo_shard(0, range(10), version="v2")
    assert whole_record(fastvideo_layout, SHARD) == record
    assert ids(fastvideo_layout) == old
    assert len(list(fastvideo_layout.shard_folder(SHARD).iterdir())) == 3
    finish_commit(fastvideo_layout, SHARD)
    remove_unlisted(fastvideo_layout, SHARD)
    assert len(list(fastvideo_layout.shard_folder(SHARD).iterdir())) == 2
    assert whole_record(fastvideo_layout, SHARD) == record


def test_a_rewritten_shard_keeps_no_file_of_the_old_one(
    make_fastvideo_shard, fastvideo_layout: Layout
):
    make_fastvideo_shard(0, range(10))
    make_fastvideo_shard(0, range(2), version="v2")
    listed = {file["name"] for file in json.loads(fastvideo_layout.shard_file(SHARD).read_bytes())}
    assert {path.name for path in fastvideo_layout.shard_folder(SHARD).iterdir()} == listed
