"""A tar with its rows and record takes its place whole, from wherever a crash left it.

tests/survival/test_fault_walk.py tries every operation; here are the states in between.
"""

from dataclasses import replace
from pathlib import Path

import pytest
import xxhash

from diffprep_assets.encoded_rows import whole_record
from diffprep_assets.layout import Layout
from diffprep_assets.shard.commit import finish_commit, new_shard
from diffprep_assets.shard.record import (
    SampleRow,
    ShardRecord,
    bad_keys,
    mark_bad_keys,
    read_record,
    read_samples,
    write_record,
    write_samples,
)
from diffprep_assets.shard.tar_writer import TarPart

SHARD = "g0-64-64x64-000000"


def row_of(version: str) -> SampleRow:
    part = TarPart("caption.txt", 512, 3)
    return SampleRow(0, "0000000000", 0, 1024, version, "l", "t", (part,))


def record_of(version: str) -> ShardRecord:
    data = content(version)
    return ShardRecord(
        shard=SHARD,
        fingerprint=version,
        tier=64,
        width=64,
        height=64,
        number=0,
        num_samples=1,
        size_bytes=len(data),
        end_offset=0,
        digest=xxhash.xxh3_128_hexdigest(data),
    )


def content(version: str) -> bytes:
    return f"a tar of version {version}".encode()


def commit(layout: Layout, version: str) -> None:
    with new_shard(layout, SHARD) as shard:
        shard.tar.write(content(version))
        shard.describe(record_of(version), [row_of(version)])


def commit_half(layout: Layout) -> None:
    with new_shard(layout, SHARD) as shard:
        shard.tar.write(b"half of")
        raise ValueError("half way")


def files(layout: Layout) -> set[str]:
    return {path.name.removeprefix(SHARD) for path in layout.shard_file(SHARD).parent.iterdir()}


def found(layout: Layout) -> str | None:
    """The version that counts as whole, looked at in all its parts."""
    record = whole_record(layout, SHARD)
    if record is None:
        return None
    version = record.fingerprint
    assert layout.shard_file(SHARD).read_bytes() == content(version)
    assert [row.digest for row in read_samples(layout.shard_samples(SHARD))] == [version]
    return version


def broken_off(layout: Layout, *, tar: str, rows: str, record: str) -> None:
    """A commit of `new` over `old` that a crash broke off: each file is of that version so far."""
    commit(layout, "old")
    write_record(layout.shard_next_record(SHARD), record_of("new"))
    if rows == "old":
        write_samples(layout.shard_next_samples(SHARD), [row_of("new")])
    else:
        write_samples(layout.shard_samples(SHARD), [row_of("new")])
    layout.shard_file(SHARD).write_bytes(content(tar))
    write_record(layout.shard_record(SHARD), record_of(record))


def test_a_commit_leaves_three_files(layout: Layout):
    commit(layout, "old")
    assert found(layout) == "old"
    commit(layout, "new")
    assert found(layout) == "new"
    assert files(layout) == {".tar", ".parquet", ".json"}


def test_what_stood_there_stays_when_the_block_raises(layout: Layout):
    commit(layout, "old")
    with pytest.raises(ValueError, match="half way"):
        commit_half(layout)
    assert found(layout) == "old"
    assert files(layout) == {".tar", ".parquet", ".json"}


@pytest.mark.parametrize(
    ("tar", "rows", "record", "ends"),
    [
        ("old", "old", "old", "old"),
        ("new", "old", "old", "new"),
        ("new", "new", "old", "new"),
    ],
)
def test_a_broken_off_commit_is_not_whole_until_it_comes_to_one_of_its_ends(
    layout: Layout, tar: str, rows: str, record: str, ends: str
):
    broken_off(layout, tar=tar, rows=rows, record=record)
    assert found(layout) is None
    finish_commit(layout, SHARD)
    assert found(layout) == ends
    assert files(layout) == {".tar", ".parquet", ".json"}
    finish_commit(layout, SHARD)
    assert found(layout) == ends


def test_a_first_commit_broken_off_before_its_tar_leaves_nothing(layout: Layout):
    write_samples(layout.shard_next_samples(SHARD), [row_of("new")])
    write_record(layout.shard_next_record(SHARD), record_of("new"))
    finish_commit(layout, SHARD)
    assert found(layout) is None
    assert files(layout) == set()


def test_a_tar_that_was_cut_is_of_no_version(layout: Layout):
    broken_off(layout, tar="new", rows="old", record="old")
    layout.shard_file(SHARD).write_bytes(content("new")[:5])
    finish_commit(layout, SHARD)
    assert found(layout) is None
    commit(layout, "new")
    assert found(layout) == "new"


def test_rows_without_a_record_are_removed(layout: Layout):
    commit(layout, "old")
    write_samples(layout.shard_next_samples(SHARD), [row_of("new")])
    assert found(layout) == "old"
    finish_commit(layout, SHARD)
    assert found(layout) == "old"
    assert files(layout) == {".tar", ".parquet", ".json"}


def test_a_new_tar_clears_the_mark_of_the_old_ones_damage(layout: Layout):
    commit(layout, "old")
    mark_bad_keys(layout.shard_bad(SHARD), ["0000000000"])
    mark_bad_keys(layout.shard_bad(SHARD), ["0000000007"])
    assert bad_keys(layout.shard_bad(SHARD)) == {"0000000000", "0000000007"}
    commit(layout, "new")
    assert bad_keys(layout.shard_bad(SHARD)) == frozenset()


def test_a_published_link_keeps_the_old_bytes(layout: Layout, tmp_path: Path):
    commit(layout, "old")
    published = tmp_path / "000000.tar"
    published.hardlink_to(layout.shard_file(SHARD))
    commit(layout, "new")
    assert published.read_bytes() == content("old")


def test_a_record_of_another_size_is_not_believed(layout: Layout):
    commit(layout, "old")
    wrong = replace(record_of("old"), size_bytes=3)
    write_record(layout.shard_record(SHARD), wrong)
    assert whole_record(layout, SHARD) is None
    assert read_record(layout.shard_record(SHARD)) == wrong
