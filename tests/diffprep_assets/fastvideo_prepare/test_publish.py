import json
import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from PIL import Image

from diffprep_assets.energon_prepare.card import MARKER
from diffprep_assets.fastvideo_prepare import publish as publishing
from diffprep_assets.fastvideo_prepare import trees as tree_swap
from diffprep_assets.layout import Layout
from diffprep_resources.errors import DiffprepError, SettingError

TALL = (16, 32)


def files(folder: Path) -> dict[str, int]:
    """Inode by name of every file below."""
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.stat().st_ino for path in found}


def served(tree: Path) -> dict[str, list[int]]:
    """By file the ids that a trainer finds in a tree."""
    return {
        path.relative_to(tree).as_posix(): [
            int(row_id) for row_id in pq.read_table(path, columns=["id"]).column("id").to_pylist()
        ]
        for path in sorted(tree.rglob("*.parquet"))
    }


def test_each_split_is_a_tree_and_each_shard_a_folder_of_it(
    make_fastvideo_shard, publish_clips, fastvideo_layout: Layout
):
    publication = publish_clips(
        make_fastvideo_shard(0, range(10)),
        make_fastvideo_shard(1, [10], split="val"),
        make_fastvideo_shard(2, [11], split="test"),
    )
    assert publication.added == (
        "test_dataset/worker_2",
        "training_dataset/worker_0",
        "validation_dataset/worker_1",
    )
    out = fastvideo_layout.output_dir
    assert served(out / "training_dataset") == {
        "worker_0/data_chunk_0.parquet": list(range(8)),
        "worker_0/data_chunk_1.parquet": [8, 9],
    }
    assert served(out / "validation_dataset") == {"worker_1/data_chunk_0.parquet": [10]}
    content = json.loads(fastvideo_layout.dataset_json.read_bytes())["fastvideo"]
    assert content["trees"]["training_dataset"]["samples"] == 10
    assert content["files"]["training_dataset/worker_0/data_chunk_1.parquet"]["num_rows"] == 2


def test_the_files_are_links_to_the_work(
    make_fastvideo_shard, publish_clips, fastvideo_layout: Layout
):
    shard = make_fastvideo_shard(0, [0])
    publish_clips(shard)
    (path,) = fastvideo_layout.shard_folder(shard.record.shard).iterdir()
    out = fastvideo_layout.output_dir
    assert (out / "training_dataset/worker_0/data_chunk_0.parquet").samefile(path)


def test_several_buckets_have_a_complete_tree_each(
    make_fastvideo_shard, publish_clips, fastvideo_layout: Layout
):
    publish_clips(
        make_fastvideo_shard(0, [0, 1]),
        make_fastvideo_shard(0, [2], size=TALL),
        make_fastvideo_shard(1, [3], size=TALL, split="val"),
        nested=True,
    )
    out = fastvideo_layout.output_dir
    assert list(served(out / "32x16x5/training_dataset")) == ["worker_0/data_chunk_0.parquet"]
    assert list(served(out / "16x32x5/training_dataset")) == ["worker_0/data_chunk_0.parquet"]
    assert (out / "16x32x5/validation.json").is_file()
    assert not (out / "32x16x5/validation.json").exists()
    card = fastvideo_layout.card.read_text()
    assert "`32x16x5/training_dataset`" in card
    assert "drop the last, incomplete batch" in card


def test_publishing_again_touches_nothing(
    make_fastvideo_shard, publish_clips, fastvideo_layout: Layout
):
    shards = [make_fastvideo_shard(0, range(10), skipped={1: "dedup"})]
    shards.append(make_fastvideo_shard(1, [10], split="val"))
    publish_clips(*shards)
    before = files(fastvideo_layout.output_dir)
    publication = publish_clips(*shards)
    assert files(fastvideo_layout.output_dir) == before
    assert (publication.added, publication.removed) == ((), ())


def test_a_rewritten_shard_gets_a_new_name_and_the_others_keep_their_files(
    make_fastvideo_shard, publish_clips, fastvideo_layout: Layout
):
    kept = make_fastvideo_shard(1, [2])
    publish_clips(make_fastvideo_shard(0, [0, 1]), kept)
    before = files(fastvideo_layout.output_dir)
    publication = publish_clips(make_fastvideo_shard(0, [0, 1], version="v2"), kept)
    assert publication.added == ("training_dataset/worker_0-1",)
    assert publication.removed == ("training_dataset/worker_0",)
    name = "training_dataset/worker_1/data_chunk_0.parquet"
    assert files(fastvideo_layout.output_dir)[name] == before[name]
    tree = fastvideo_layout.output_dir / "training_dataset"
    assert sorted(path.name for path in tree.iterdir()) == ["worker_0-1", "worker_1"]


def test_a_skipped_row_is_left_out_and_comes_back_under_another_name(
    make_fastvideo_shard, publish_clips, fastvideo_layout: Layout
):
    tree = fastvideo_layout.output_dir / "training_dataset"
    publish_clips(make_fastvideo_shard(0, range(10)))
    skipped = make_fastvideo_shard(0, range(10), skipped={3: "skip_list:blurry"})
    publish_clips(skipped)
    assert served(tree) == {
        "worker_0-1/data_chunk_0.parquet": [0, 1, 2, 4, 5, 6, 7],
        "worker_0-1/data_chunk_1.parquet": [8, 9],
    }
    counts = json.loads(fastvideo_layout.dataset_json.read_bytes())["counts"]
    assert (counts["written"], counts["skipped"], counts["served"]) == (10, 1, 9)
    publish_clips(make_fastvideo_shard(0, range(10)))
    assert [len(rows) for rows in served(tree).values()] == [8, 2]
    assert next(iter(served(tree))).startswith("worker_0-2/")


def test_a_file_of_which_every_row_is_skipped_is_not_there(
    make_fastvideo_shard, publish_clips, fastvideo_layout: Layout
):
    skipped = dict.fromkeys((8, 9), "dedup")
    publish_clips(make_fastvideo_shard(0, range(10), skipped=skipped))
    found = served(fastvideo_layout.output_dir / "training_dataset")
    assert list(found) == ["worker_0/data_chunk_0.parquet"]


def test_a_shard_of_which_every_row_is_skipped_is_an_empty_folder(
    make_fastvideo_shard, publish_clips, fastvideo_layout: Layout
):
    publish_clips(make_fastvideo_shard(0, [0]), make_fastvideo_shard(1, [1], skipped={1: "dedup"}))
    assert list(served(fastvideo_layout.output_dir / "training_dataset")) == [
        "worker_0/data_chunk_0.parquet"
    ]
    publish_clips(make_fastvideo_shard(0, [0]), make_fastvideo_shard(1, [1], skipped={1: "dedup"}))


def test_a_trainers_list_of_files_goes_unread_and_a_file_of_ones_own_stays(
    make_fastvideo_shard, publish_clips, fastvideo_layout: Layout
):
    publish_clips(make_fastvideo_shard(0, [0]))
    tree = fastvideo_layout.output_dir / "training_dataset"
    (tree / "map_style_cache").mkdir()
    (tree / "map_style_cache/file_info.pkl").write_bytes(b"not a pickle")
    (tree / "notes.txt").write_text("mine")
    publish_clips(make_fastvideo_shard(0, [0], version="v2"))
    assert sorted(path.name for path in tree.iterdir()) == ["notes.txt", "worker_0-1"]


def test_a_split_that_is_empty_now_leaves_no_tree(
    make_fastvideo_shard, publish_clips, fastvideo_layout: Layout
):
    first = make_fastvideo_shard(0, [0])
    publish_clips(first, make_fastvideo_shard(1, [1], split="val"))
    publish_clips(first)
    names = {path.name for path in fastvideo_layout.output_dir.iterdir()}
    assert names == {"training_dataset", "dataset.json", "README.md"}


def test_a_published_file_that_was_damaged_is_put_anew_under_another_name(
    make_fastvideo_shard, publish_clips, fastvideo_layout: Layout
):
    publish_clips(make_fastvideo_shard(0, [0]))
    path = fastvideo_layout.output_dir / "training_dataset/worker_0/data_chunk_0.parquet"
    data = bytearray(path.read_bytes())
    data[600] ^= 0xFF
    path.unlink()
    path.write_bytes(data)
    publication = publish_clips(make_fastvideo_shard(0, [0]))
    assert publication.added == ("training_dataset/worker_0-1",)


def test_validation_json_has_the_captions_of_val_and_their_first_frames(
    make_fastvideo_shard, publish_clips, fastvideo_layout: Layout
):
    publish_clips(
        make_fastvideo_shard(0, [0]),
        make_fastvideo_shard(1, [7, 8], split="val", skipped={8: "dedup"}),
    )
    out = fastvideo_layout.output_dir
    (prompt,) = json.loads((out / "validation.json").read_bytes())["data"]
    row = make_fastvideo_shard.row(7, version="v1")
    assert prompt["caption"] == row.caption
    assert (prompt["width"], prompt["height"], prompt["num_frames"]) == (32, 16, 5)
    with Image.open(out / prompt["image_path"]) as picture:
        assert picture.size == (32, 16)
        assert picture.getpixel((3, 2)) == tuple(row.tensors["pil_image"][:, 2, 3].astype(int))


def test_without_finalize_only_the_trees_are_there(
    make_fastvideo_shard, publish_clips, fastvideo_layout: Layout
):
    shards = [make_fastvideo_shard(0, [0]), make_fastvideo_shard(1, [1], split="val")]
    publish_clips(*shards)
    publish_clips(*shards, finalize=False)
    assert list(files(fastvideo_layout.output_dir)) == [
        "training_dataset/worker_0/data_chunk_0.parquet",
        "validation_dataset/worker_1/data_chunk_0.parquet",
    ]


def test_nothing_to_train_on_is_refused(make_fastvideo_shard, publish_clips):
    with pytest.raises(DiffprepError, match="split train"):
        publish_clips(make_fastvideo_shard(0, [0], split="val"))


def test_anothers_files_are_not_touched(
    make_fastvideo_shard, publish_clips, fastvideo_layout: Layout
):
    path = fastvideo_layout.output_dir / "training_dataset/worker_0/data_chunk_0.parquet"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"another's")
    with pytest.raises(SettingError, match="another dataset"):
        publish_clips(make_fastvideo_shard(0, [0]))


def test_a_card_of_ones_own_stays(make_fastvideo_shard, publish_clips, fastvideo_layout: Layout):
    publish_clips(make_fastvideo_shard(0, [0]))
    text = fastvideo_layout.card.read_text("utf-8")
    assert "--data_path path/to/demo/training_dataset" in text
    fastvideo_layout.card.write_text(text.replace(MARKER, "mine"))
    publish_clips(make_fastvideo_shard(0, [0], version="v2"))
    assert "mine" in fastvideo_layout.card.read_text("utf-8")


STEPS = {
    "before a tree is built": (tree_swap, "put_shard"),
    "between two trees": (publishing, "swap_tree"),
    "before the description": (publishing, "_write_description"),
    "between the renames": (Path, "rename"),
    "before the old tree goes": (tree_swap, "_clear"),
}


@pytest.mark.parametrize("step", list(STEPS))
def test_a_crash_leaves_each_tree_old_or_new_or_away_and_the_next_run_ends_it(
    make_fastvideo_shard,
    publish_clips,
    fastvideo_layout: Layout,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
):
    def shards(version: str, more: list[int]) -> list:
        return [
            make_fastvideo_shard(0, [0, *more], version=version),
            make_fastvideo_shard(1, [1], split="val", version=version),
        ]

    publish_clips(*shards("v1", []))
    owner, name = STEPS[step]
    whole, calls = getattr(owner, name), []
    tree = fastvideo_layout.output_dir / "training_dataset"
    old = served(tree)
    new = shards("v2", [5])

    def crashing(*args, **kwargs):
        calls.append(1)
        if len(calls) == (1 if name == "_write_description" else 2):
            raise RuntimeError("killed")
        return whole(*args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, crashing)
        with pytest.raises(RuntimeError, match="killed"):
            publish_clips(*new)
    wanted = {"worker_0-1/data_chunk_0.parquet": [0, 5]}
    assert served(tree) in ({}, old, wanted)
    publish_clips(*new)
    assert served(tree) == wanted
    names = {path.name for path in fastvideo_layout.output_dir.iterdir()}
    assert not any(name.startswith(".") for name in names)
    assert set(os.listdir(tree)) == {"worker_0-1"}
