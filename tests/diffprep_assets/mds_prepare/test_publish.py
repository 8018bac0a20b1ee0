import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from diffprep_assets.energon_prepare.card import MARKER
from diffprep_assets.layout import Layout
from diffprep_assets.mds_prepare import publish as publishing
from diffprep_assets.mds_prepare.folders import list_name
from diffprep_resources.errors import DiffprepError, SettingError
from diffprep_resources.mds.layout import INDEX_NAME
from diffprep_resources.mds.reader import open_shard, read_index

WIDE, TALL = (64, 32), (32, 64)


def files(folder: Path) -> dict[str, int]:
    """Inode by name of every file below."""
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.stat().st_ino for path in found}


def served(folder: Path) -> dict[str, list[str]]:
    """By folder the ids that a reader finds by the index. AssertionError where one would not read
    what the index says."""
    found: dict[str, list[str]] = {}
    for path in sorted(folder.rglob(INDEX_NAME)):
        ids = found.setdefault(path.parent.relative_to(folder).as_posix(), [])
        for entry in read_index(path):
            shard = path.with_name(entry["raw_data"]["basename"])
            assert shard.stat().st_size == entry["raw_data"]["bytes"]
            with open_shard(shard) as reader:
                assert reader.header.num_samples == entry["samples"]
                ids += [sample["id"] for sample in reader]
    return found


def ids(*numbers: int) -> list[str]:
    return [f"{number:010d}" for number in numbers]


def test_shards_lie_in_folders_of_split_tier_and_aspect(
    make_mds_shard, publish_shards, mds_layout: Layout
):
    publication = publish_shards(
        make_mds_shard(0, [0, 1]),
        make_mds_shard(3, [4], split="val"),
        make_mds_shard(0, [2, 3], size=TALL),
        make_mds_shard(1, [5, 6, 7]),
    )
    assert publication.added == (
        "train/64/0.500/shard.000000.mds",
        "train/64/2.000/shard.000000.mds",
        "train/64/2.000/shard.000001.mds",
        "val/64/2.000/shard.000003.mds",
    )
    assert served(mds_layout.output_dir) == {
        "train/64/0.500": ids(2, 3),
        "train/64/2.000": ids(0, 1, 5, 6, 7),
        "val/64/2.000": ids(4),
    }
    content = json.loads(mds_layout.dataset_json.read_bytes())
    assert content["mds"]["local"] == {"train": ["train/64"], "val": ["val/64"]}
    assert content["mds"]["columns"]["image"] == "png"
    assert content["counts"]["splits"] == {"train": 7, "val": 1, "test": 0}


def test_publishing_again_touches_nothing(make_mds_shard, publish_shards, mds_layout: Layout):
    shards = [make_mds_shard(0, [0, 1], skipped={1: "dedup"}), make_mds_shard(0, [2], size=TALL)]
    publish_shards(*shards)
    before = files(mds_layout.output_dir)
    publication = publish_shards(*shards)
    assert files(mds_layout.output_dir) == before
    assert (publication.added, publication.removed) == ((), ())


def test_a_rewritten_shard_gets_a_new_name_and_the_old_one_goes(
    make_mds_shard, publish_shards, mds_layout: Layout
):
    first = make_mds_shard(3, [0, 1], skipped={0: "dedup"})
    publish_shards(first)
    assert (mds_layout.output_dir / "train/64/2.000/shard.000003.mds.skip.dedup.json").exists()
    publication = publish_shards(make_mds_shard(3, [0, 1], version="v2"))
    assert publication.added == ("train/64/2.000/shard.000003-1.mds",)
    assert publication.removed == ("train/64/2.000/shard.000003.mds",)
    folder = mds_layout.output_dir / "train/64/2.000"
    assert sorted(files(folder)) == [INDEX_NAME, "shard.000003-1.mds"]


def test_a_bucket_that_is_left_leaves_no_folder(make_mds_shard, publish_shards, mds_layout: Layout):
    wide = make_mds_shard(0, [0])
    publish_shards(wide, make_mds_shard(0, [1], size=TALL))
    publish_shards(wide)
    assert [path.name for path in (mds_layout.output_dir / "train/64").iterdir()] == ["2.000"]


def test_a_skip_writes_a_list_beside_the_shard_and_no_shard(
    make_mds_shard, publish_shards, mds_layout: Layout
):
    publish_shards(make_mds_shard(0, [4, 5, 6]), make_mds_shard(1, [7]))
    before = files(mds_layout.output_dir)
    skipped = {4: "skip_list:blurry", 6: "skip_list:blurry", 5: "filters.min_side"}
    publish_shards(make_mds_shard(0, [4, 5, 6], skipped=skipped), make_mds_shard(1, [7]))
    after = files(mds_layout.output_dir)
    lists = {name: after.pop(name) for name in list(after) if ".skip." in name}
    assert {n: i for n, i in after.items() if n.endswith((".mds", INDEX_NAME))} == {
        n: i for n, i in before.items() if n.endswith((".mds", INDEX_NAME))
    }
    held = {
        name.partition(".skip.")[2]: json.loads((mds_layout.output_dir / name).read_bytes())["skip"]
        for name in lists
    }
    assert held == {"skip_list-blurry.json": [0, 2], "filters.min_side.json": [1]}


def test_a_skip_that_is_taken_back_takes_its_list_along_but_no_list_of_others(
    make_mds_shard, publish_shards, mds_layout: Layout
):
    publish_shards(make_mds_shard(0, [4, 5], skipped={4: "dedup"}))
    folder = mds_layout.output_dir / "train/64/2.000"
    others = folder / "shard.000000.mds.skip.mine.json"
    others.write_text('{"skip": [1]}')
    publish_shards(make_mds_shard(0, [4, 5]))
    assert [path.name for path in folder.glob("*.skip.*")] == [others.name]


def test_a_folder_that_serves_nothing_has_no_index(
    make_mds_shard, publish_shards, mds_layout: Layout
):
    tall = make_mds_shard(0, [2, 3], size=TALL, skipped={2: "dedup", 3: "dedup"})
    publish_shards(make_mds_shard(0, [0]), tall)
    assert served(mds_layout.output_dir) == {"train/64/2.000": ids(0)}
    assert (mds_layout.output_dir / "train/64/0.500/shard.000000.mds").exists()
    publish_shards(make_mds_shard(0, [0]), make_mds_shard(0, [2, 3], size=TALL))
    assert served(mds_layout.output_dir)["train/64/0.500"] == ids(2, 3)


def test_two_sizes_of_one_aspect_are_refused(make_mds_shard, publish_shards):
    shards = [make_mds_shard(0, [0]), make_mds_shard(1, [1], size=(32, 16))]
    with pytest.raises(SettingError, match=r"32x16 and 64x32 .* train/64/2\.000"):
        publish_shards(*shards)


def test_nothing_to_train_on_is_refused(make_mds_shard, publish_shards):
    with pytest.raises(DiffprepError, match="split train"):
        publish_shards(make_mds_shard(0, [0], split="val"))


def test_without_finalize_only_shards_are_there(make_mds_shard, publish_shards, mds_layout: Layout):
    publish_shards(make_mds_shard(0, [0]))
    publish_shards(make_mds_shard(0, [0]), finalize=False)
    assert list(files(mds_layout.output_dir)) == ["train/64/2.000/shard.000000.mds"]


def test_anothers_shards_are_not_touched(make_mds_shard, publish_shards, mds_layout: Layout):
    path = mds_layout.output_dir / "train/64/1.000/shard.00000.mds"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"another's")
    with pytest.raises(SettingError, match="another dataset"):
        publish_shards(make_mds_shard(0, [0]))


def test_a_card_of_ones_own_stays(make_mds_shard, publish_shards, mds_layout: Layout):
    publish_shards(make_mds_shard(0, [0]))
    text = mds_layout.card.read_text("utf-8")
    assert "- path/to/demo/train/64" in text
    assert "- [long, 2]" in text
    mds_layout.card.write_text(text.replace(MARKER, "mine"))
    publish_shards(make_mds_shard(0, [0, 1], version="v2"))
    assert "mine" in mds_layout.card.read_text("utf-8")


def test_a_rules_name_is_safe_in_a_files_name():
    assert list_name("skip_list:../a b\u00e9") == "skip_list-..%2fa%20b%c3a9"


STEPS = ("put_shard", "_write_sidecars", "folder_index", "_write_description", "unlink_old")


@pytest.mark.parametrize("step", STEPS)
def test_a_crash_leaves_every_folder_readable_and_the_next_run_ends_it(
    make_mds_shard, publish_shards, mds_layout: Layout, monkeypatch: pytest.MonkeyPatch, step: str
):
    publish_shards(make_mds_shard(0, [0, 1]), make_mds_shard(0, [2], size=TALL))
    old = served(mds_layout.output_dir)
    new = [make_mds_shard(0, [0, 1, 5], version="v2"), make_mds_shard(0, [2, 6], size=TALL)]
    calls = iter(crash_at_second())
    whole = getattr(publishing, step)

    def crashing(*args: object, **kwargs: object) -> object:
        next(calls)
        return whole(*args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(publishing, step, crashing)
        if step in ("_write_sidecars", "_write_description", "unlink_old"):
            next(calls)
        with pytest.raises(RuntimeError, match="killed"):
            publish_shards(*new)
    wanted = {"train/64/2.000": ids(0, 1, 5), "train/64/0.500": ids(2, 6)}
    for folder, found in served(mds_layout.output_dir).items():
        assert found in (old[folder], wanted[folder])
    publish_shards(*new)
    assert served(mds_layout.output_dir) == wanted
    names = [name for name in files(mds_layout.output_dir) if name.endswith(".mds")]
    assert names == ["train/64/0.500/shard.000000-1.mds", "train/64/2.000/shard.000000-1.mds"]


def crash_at_second() -> Iterator[None]:
    """Goes well once, then never."""
    yield None
    raise RuntimeError("killed")
