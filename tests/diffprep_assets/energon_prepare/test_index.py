"""Against energon's own preparation, with explicit patterns."""

import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import xxhash
from megatron.energon.flavors.webdataset.base_webdataset import BaseWebdatasetFactory

from diffprep_assets.energon_prepare.index import index_uuid
from diffprep_assets.energon_prepare.names import PublishedShard
from diffprep_assets.energon_prepare.provenance import DatasetDescription
from diffprep_assets.energon_prepare.publish import FinishedShard, Publication, publish
from diffprep_assets.layout import Layout

MakeShard = Callable[..., FinishedShard]


def rows(path: Path, table: str) -> list[tuple]:
    with sqlite3.connect(path) as database:
        return sorted(database.execute(f"SELECT * FROM {table}").fetchall())


def schema(path: Path) -> list[tuple]:
    with sqlite3.connect(path) as database:
        return database.execute("SELECT type, name, sql FROM sqlite_master ORDER BY 2").fetchall()


def prepared_by_energon(published: Publication, source: Path, folder: Path) -> Path:
    names = sorted(tar.relative_to(source).as_posix() for tar in source.rglob("*.tar"))
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source / name, folder / name)
    patterns = [
        (split, "|".join(s.name for s in published.shards if s.split == split) or "nothing")
        for split in ("train", "val", "test")
    ]
    BaseWebdatasetFactory.prepare_dataset(
        folder, names, split_parts_patterns=patterns, shuffle_seed=None, workers=1
    )
    return folder


@pytest.mark.parametrize("nested", [False, True])
def test_every_index_file_equals_what_energon_makes_by_reading_the_tars(
    layout: Layout,
    make_shard: MakeShard,
    description: DatasetDescription,
    tmp_path: Path,
    nested: bool,
) -> None:
    sizes = [(64, 32), (32, 64), (64, 64)] if nested else [(64, 32)]
    shards = [
        make_shard(
            number,
            range(100 * place + 3 * number, 100 * place + 3 * number + 3),
            size=size,
            split="val" if number == 2 else "train",
        )
        for place, size in enumerate(sizes)
        for number in range(4)
    ]
    first = publish(layout, shards=shards, description=description, nested=nested)
    assert len(first.added) == len(shards)
    shards[1] = make_shard(1, range(3, 6), version="v2")
    published = publish(layout, shards=shards, description=description, nested=nested)
    ours, theirs = (
        layout.output_dir,
        prepared_by_energon(published, layout.output_dir, tmp_path / "energon"),
    )
    for shard in published.shards:
        assert (ours / f"{shard.name}.idx").read_bytes() == (
            theirs / f"{shard.name}.idx"
        ).read_bytes()
    for name in (".info.json", "split.yaml"):
        assert (ours / ".nv-meta" / name).read_bytes() == (theirs / ".nv-meta" / name).read_bytes()
    sqlite = ".nv-meta/index.sqlite"
    assert schema(ours / sqlite) == schema(theirs / sqlite)
    for table in ("samples", "sample_parts"):
        assert rows(ours / sqlite, table) == rows(theirs / sqlite, table)
        assert rows(ours / sqlite, table)


def test_an_empty_split_is_an_empty_list(
    layout: Layout, make_shard: MakeShard, description: DatasetDescription
) -> None:
    publish(layout, shards=[make_shard(0, [1])], description=description, nested=False)
    assert (layout.nv_meta / "split.yaml").read_text() == (
        "split_parts:\n  train:\n  - 000000.tar\n  val: []\n  test: []\nexclude: []\n"
    )


def test_digests_cover_each_sample_of_each_shard(
    layout: Layout, make_shard: MakeShard, description: DatasetDescription
) -> None:
    shards = [make_shard(0, [1, 2]), make_shard(1, [5])]
    published = publish(layout, shards=shards, description=description, nested=False)
    table = pq.read_table(layout.nv_meta / "digests.parquet").to_pylist()
    assert [(row["shard"], row["key"]) for row in table] == [
        ("000000.tar", "0000000001"),
        ("000000.tar", "0000000002"),
        ("000001.tar", "0000000005"),
    ]
    data = (layout.output_dir / "000001.tar").read_bytes()
    end = published.shards[1].record.end_offset
    assert table[2]["digest"] == xxhash.xxh3_128_hexdigest(data[:end])


def test_the_uuid_follows_names_and_bytes_and_nothing_else(
    layout: Layout, make_shard: MakeShard
) -> None:
    record = make_shard(0, [1]).record
    shard = PublishedShard("000000.tar", "train", record, layout.shard_samples(record.shard))
    same = replace(shard, split="val", record=replace(record, fingerprint="other"))
    renamed = replace(shard, name="000000-1.tar")
    rewritten = replace(shard, record=replace(record, digest="0" * 32))
    assert index_uuid([shard]) == index_uuid([same])
    assert len({index_uuid([s]) for s in (shard, renamed, rewritten)}) == 3
