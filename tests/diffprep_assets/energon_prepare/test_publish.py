import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from diffprep_assets.energon_prepare.metadata_files import EmptyEncodings
from diffprep_assets.energon_prepare.output_state import load_state
from diffprep_assets.energon_prepare.provenance import DatasetDescription
from diffprep_assets.energon_prepare.publish import FinishedShard, publish
from diffprep_assets.layout import Layout
from diffprep_resources.errors import DiffprepError, StageInputError

MakeShard = Callable[..., FinishedShard]


def files(folder: Path) -> dict[str, tuple[int, int]]:
    """Inode and modification time of every file, by relative path."""
    return {
        path.relative_to(folder).as_posix(): (path.stat().st_ino, path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.fixture
def shards(make_shard: MakeShard) -> list[FinishedShard]:
    return [
        make_shard(0, [0, 1, 2]),
        make_shard(1, [3, 4]),
        make_shard(2, [5, 6], split="val"),
    ]


@pytest.fixture
def put(
    layout: Layout, description: DatasetDescription, empty: EmptyEncodings
) -> Callable[..., object]:
    def publish_them(shards: list[FinishedShard], **changed: object):
        options = {"description": description, "nested": False, "empty": empty, **changed}
        return publish(layout, shards=shards, **options)  # type: ignore[arg-type]

    return publish_them


def test_the_output_holds_what_the_design_lists_and_nothing_else(
    layout: Layout, shards: list[FinishedShard], put
) -> None:
    put(shards)
    tars = {f"00000{n}.tar{suffix}" for n in range(3) for suffix in ("", ".idx")}
    meta = {"dataset.yaml", "split.yaml", ".info.json", "index.sqlite", "index.uuid"}
    assert set(files(layout.output_dir)) == tars | {
        *(f".nv-meta/{name}" for name in meta | {"digests.parquet"}),
        "empty_encodings/t5_empty.npy",
        "empty_encodings/clip_empty.npy",
        "dataset.json",
        "README.md",
    }


def test_a_reader_gets_every_field_of_every_sample(
    layout: Layout, shards: list[FinishedShard], put, read_split, draw_tensors
) -> None:
    put(shards)
    for split, ids in (("train", [0, 1, 2, 3, 4]), ("val", [5, 6])):
        batches = read_split(layout.output_dir, split)
        assert [key for batch in batches for key in batch["__key__"]] == [f"{n:010d}" for n in ids]
        for batch in batches:
            for place, key in enumerate(batch["__key__"]):
                expected = draw_tensors(int(key), width=64, height=32, version="v1")
                for name, tensor in expected.items():
                    assert batch[name].dtype == tensor.dtype
                    assert (batch[name][place] == tensor).all()


def test_tars_are_hard_links_of_the_finished_ones(
    layout: Layout, shards: list[FinishedShard], put
) -> None:
    put(shards)
    for shard in shards:
        name = f"{shard.record.number:06d}.tar"
        assert (layout.output_dir / name).samefile(layout.shard_file(shard.record.shard))


def test_publishing_again_writes_nothing(layout: Layout, shards: list[FinishedShard], put) -> None:
    put(shards)
    before = files(layout.root), files(layout.output_dir)
    again = put(shards)
    assert (files(layout.root), files(layout.output_dir)) == before
    assert (again.added, again.removed) == ((), ())


def test_a_rewritten_shard_gets_a_new_name_and_the_others_keep_name_and_inode(
    layout: Layout, shards: list[FinishedShard], put, make_shard: MakeShard
) -> None:
    put(shards)
    before = files(layout.output_dir)
    shards[1] = make_shard(1, [3, 4], version="v2")
    result = put(shards)
    after = files(layout.output_dir)
    assert result.added == ("000001-1.tar",)
    assert result.removed == ("000001.tar",)
    assert "000001.tar" not in after
    assert "000001.tar.idx" not in after
    for name in ("000000.tar", "000000.tar.idx", "000002.tar", "000002.tar.idx"):
        assert after[name] == before[name]
    assert [shard.name for shard in result.shards] == ["000000.tar", "000001-1.tar", "000002.tar"]


def test_a_name_is_never_used_for_other_content_even_when_the_old_content_returns(
    layout: Layout, shards: list[FinishedShard], put, make_shard: MakeShard
) -> None:
    names = []
    for version in ("v1", "v2", "v1", "v3"):
        shards[1] = make_shard(1, [3, 4], version=version)
        names.append(put(shards).shards[1].name)
    assert names == ["000001.tar", "000001-1.tar", "000001-2.tar", "000001-3.tar"]


def test_names_survive_the_loss_of_either_record(
    layout: Layout, shards: list[FinishedShard], put, make_shard: MakeShard
) -> None:
    put(shards)
    shards[1] = make_shard(1, [3, 4], version="v2")
    put(shards)
    (layout.folder / "published.json").unlink()
    shards[1] = make_shard(1, [3, 4], version="v3")
    assert put(shards).shards[1].name == "000001-2.tar"
    layout.dataset_json.unlink()
    shards[1] = make_shard(1, [3, 4], version="v4")
    assert put(shards).shards[1].name == "000001-3.tar"
    assert sorted(path.name for path in layout.output_dir.glob("*.tar")) == [
        "000000.tar",
        "000001-3.tar",
        "000002.tar",
    ]


def test_a_moved_split_rewrites_no_tar_and_keeps_the_index(
    layout: Layout, shards: list[FinishedShard], put, read_split
) -> None:
    put(shards)
    before = files(layout.output_dir)
    shards[1] = replace(shards[1], split="test")
    put(shards)
    after = files(layout.output_dir)
    changed = {name for name in before if after[name] != before[name]}
    assert changed == {".nv-meta/split.yaml", "dataset.json", "README.md"}
    assert [batch["__key__"] for batch in read_split(layout.output_dir, "test")] == [
        ["0000000003", "0000000004"]
    ]


def test_buckets_stand_in_folders_and_an_emptied_folder_goes(
    layout: Layout, put, make_shard: MakeShard
) -> None:
    wide, tall = make_shard(0, [0, 1]), make_shard(0, [2], size=(32, 64))
    put([wide, tall], nested=True)
    assert (layout.output_dir / "64/64x32/000000.tar").is_file()
    assert (layout.output_dir / "64/32x64/000000.tar.idx").is_file()
    put([wide], nested=True)
    assert not (layout.output_dir / "64/32x64").exists()


def test_files_of_others_in_the_output_folder_are_left_alone(
    layout: Layout, shards: list[FinishedShard], put, make_shard: MakeShard
) -> None:
    layout.output_dir.mkdir()
    (layout.output_dir / "README.md").write_text("my own card")
    (layout.output_dir / "notes.txt").write_text("mine")
    put(shards)
    (layout.output_dir / "000001-1.tar").write_bytes(b"mine too")
    shards[1] = make_shard(1, [3, 4], version="v2")
    assert put(shards).shards[1].name == "000001-2.tar"
    put([shards[0]])
    assert (layout.output_dir / "README.md").read_text() == "my own card"
    assert (layout.output_dir / "notes.txt").read_text() == "mine"
    assert (layout.output_dir / "000001-1.tar").read_bytes() == b"mine too"


def test_without_finalize_only_tars_are_published_and_finalizing_later_rewrites_none(
    layout: Layout, shards: list[FinishedShard], put, make_shard: MakeShard, read_split
) -> None:
    put(shards, finalize=False)
    shards[1] = make_shard(1, [3, 4], version="v2")
    put(shards, finalize=False)
    tars = files(layout.output_dir)
    assert set(tars) == {"000000.tar", "000001-1.tar", "000002.tar"}
    put(shards)
    after = files(layout.output_dir)
    assert {name: after[name] for name in tars} == tars
    assert sum(len(batch["__key__"]) for batch in read_split(layout.output_dir)) == 5


def test_turning_finalize_off_keeps_metadata_only_while_it_is_true(
    layout: Layout, shards: list[FinishedShard], put, make_shard: MakeShard
) -> None:
    put(shards)
    before = files(layout.output_dir)
    put(shards, finalize=False)
    assert files(layout.output_dir) == before
    shards[0] = make_shard(0, [0, 1, 2], version="v2")
    put(shards, finalize=False)
    assert set(files(layout.output_dir)) == {"000000-1.tar", "000001.tar", "000002.tar"}
    assert not layout.nv_meta.exists()


def test_a_deleted_published_tar_comes_back_under_its_name(
    layout: Layout, shards: list[FinishedShard], put
) -> None:
    put(shards)
    (layout.output_dir / "000001.tar").unlink()
    (layout.output_dir / "000000.tar.idx").write_bytes(b"junk")
    result = put(shards)
    assert result.added == ("000001.tar",)
    assert (layout.output_dir / "000001.tar").stat().st_nlink == 2
    assert len((layout.output_dir / "000000.tar.idx").read_bytes()) == 8 * 4


def test_a_damaged_tar_that_was_made_again_is_published_under_a_new_name(
    layout: Layout, shards: list[FinishedShard], put, make_shard: MakeShard
) -> None:
    put(shards)
    published = layout.output_dir / "000001.tar"
    with published.open("r+b") as file:
        file.seek(2000)
        file.write(b"\xff")
    again = make_shard(1, [3, 4])
    assert again.record.digest == shards[1].record.digest
    shards[1] = again
    assert put(shards).shards[1].name == "000001-1.tar"
    assert not published.exists()


def test_a_damaged_index_is_written_anew(layout: Layout, shards: list[FinishedShard], put) -> None:
    put(shards)
    good = (layout.nv_meta / "digests.parquet").read_bytes()
    (layout.nv_meta / "digests.parquet").write_bytes(b"")
    (layout.nv_meta / "index.sqlite").unlink()
    put(shards)
    assert (layout.nv_meta / "digests.parquet").read_bytes() == good
    assert (layout.nv_meta / "index.sqlite").stat().st_size > 0


def test_copies_are_kept_when_links_cannot_be_made_and_not_read_again(
    layout: Layout, shards: list[FinishedShard], put, make_shard, monkeypatch
) -> None:
    def no_link(*_: object, **__: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", no_link)
    put(shards)
    before = files(layout.output_dir)
    assert (layout.output_dir / "000000.tar").stat().st_nlink == 1
    stamped = load_state(layout).files["000000.tar"]
    assert stamped.stamp is not None
    put(shards)
    assert files(layout.output_dir) == before
    shards[1] = make_shard(1, [3, 4], version="v2")
    assert put(shards).added == ("000001-1.tar",)


def test_a_dataset_moved_to_another_mount_point_keeps_every_tar(
    layout: Layout, shards: list[FinishedShard], description: DatasetDescription, tmp_path: Path
) -> None:
    publish(layout, shards=shards, description=description, nested=False)
    for name in ("storage", "out"):
        shutil.copytree(tmp_path / name, tmp_path / "moved" / name)
    moved = Layout(
        root=tmp_path / "moved/storage", dataset="demo", output_dir=tmp_path / "moved/out"
    )
    before = files(moved.output_dir)
    result = publish(moved, shards=shards, description=description, nested=False)
    assert (result.added, result.removed) == ((), ())
    after = files(moved.output_dir)
    assert {n: s for n, s in after.items() if n.endswith((".tar", ".idx"))} == {
        n: s for n, s in before.items() if n.endswith((".tar", ".idx"))
    }


def test_a_shard_whose_samples_were_all_rejected_is_not_published(
    layout: Layout, shards: list[FinishedShard], put, make_shard: MakeShard
) -> None:
    put([*shards, make_shard(3, [])])
    assert not (layout.output_dir / "000003.tar").exists()


def test_nothing_written_is_a_clear_failure_and_leaves_no_output(
    layout: Layout, put, make_shard: MakeShard
) -> None:
    with pytest.raises(DiffprepError, match="0 samples were written"):
        put([make_shard(0, [])])
    with pytest.raises(DiffprepError, match="split train has no sample"):
        put([make_shard(1, [1], split="val")])
    assert not layout.output_dir.exists()


def test_a_missing_tar_names_its_shard_and_the_command(
    layout: Layout, shards: list[FinishedShard], put
) -> None:
    layout.shard_file(shards[0].record.shard).unlink()
    with pytest.raises(StageInputError, match=r"g1-64-64x32-000000.*diffprep run demo"):
        put(shards)


def test_empty_encodings_are_float32_arrays_that_numpy_reads(
    layout: Layout, shards: list[FinishedShard], put, empty: EmptyEncodings
) -> None:
    put(shards)
    t5 = np.load(layout.published_empty_encodings / "t5_empty.npy", allow_pickle=False)
    assert t5.dtype == np.float32
    assert np.array_equal(t5, empty.t5)
    half = EmptyEncodings(empty.t5.astype(np.float16), empty.clip)
    with pytest.raises(ValueError, match="must be float32"):
        put(shards, empty=half)


def test_dataset_json_lists_shards_names_and_counts(
    layout: Layout, shards: list[FinishedShard], put, make_shard: MakeShard, description
) -> None:
    put(shards)
    shards[1] = make_shard(1, [3, 4], version="v2")
    put(shards, description=replace(description, listed=9, rejects={"too_small": 2}))
    content = json.loads(layout.dataset_json.read_bytes())
    assert content["names"] == {"000000": 0, "000001": 1, "000002": 0}
    assert [(s["name"], s["shard"], s["split"]) for s in content["shards"]] == [
        ("000000.tar", "g1-64-64x32-000000", "train"),
        ("000001-1.tar", "g1-64-64x32-000001", "train"),
        ("000002.tar", "g1-64-64x32-000002", "val"),
    ]
    counts = content["counts"]
    assert counts["listed"] == counts["written"] + counts["rejected"] == 9
    assert counts["splits"] == {"train": 5, "val": 2, "test": 0}
