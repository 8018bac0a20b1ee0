import json
from collections.abc import Callable
from pathlib import Path

import pytest

from diffprep_assets.energon_prepare.output_state import (
    NamedContent,
    check_output,
    first_shard,
    holds,
    load_state,
)
from diffprep_assets.energon_prepare.provenance import DatasetDescription
from diffprep_assets.energon_prepare.publish import FinishedShard, publish
from diffprep_assets.layout import Layout
from diffprep_resources.errors import SettingError


@pytest.fixture
def published(
    layout: Layout, make_shard: Callable[..., FinishedShard], description: DatasetDescription
) -> FinishedShard:
    shard = make_shard(0, [1])
    publish(layout, shards=[shard], description=description, nested=False)
    return shard


def test_an_empty_or_missing_folder_and_one_with_other_files_are_free(layout: Layout) -> None:
    check_output(layout)
    layout.output_dir.mkdir()
    (layout.output_dir / "notes.txt").write_text("mine")
    check_output(layout)
    assert load_state(layout).files == {}


def test_an_output_that_holds_another_dataset_is_refused_naming_both(
    layout: Layout, published: FinishedShard
) -> None:
    other = Layout(root=layout.root, dataset="other", output_dir=layout.output_dir)
    with pytest.raises(SettingError, match=r"holds dataset 'demo'.*not dataset 'other'"):
        check_output(other)
    check_output(layout)


@pytest.mark.parametrize("place", ["000000.tar", "512/352x704/000000.tar", ".nv-meta/split.yaml"])
def test_tars_or_metadata_of_nobody_are_refused(layout: Layout, place: str) -> None:
    path = layout.output_dir / place
    path.parent.mkdir(parents=True)
    path.write_bytes(b"")
    with pytest.raises(SettingError, match="holds another dataset"):
        check_output(layout)


def test_tars_alone_are_known_by_the_state_in_the_datasets_own_folder(
    layout: Layout, make_shard: Callable[..., FinishedShard], description: DatasetDescription
) -> None:
    publish(
        layout, shards=[make_shard(0, [1])], description=description, nested=False, finalize=False
    )
    check_output(layout)
    stranger = Layout(root=layout.root.parent / "new", dataset="demo", output_dir=layout.output_dir)
    with pytest.raises(SettingError, match=r"no dataset.json says whose it is"):
        check_output(stranger)


def test_a_recipe_that_names_another_folder_owns_nothing_there(
    layout: Layout, published: FinishedShard, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    size = published.record.size_bytes
    (elsewhere / "000000.tar").write_bytes(bytes(size))
    moved = Layout(root=layout.root, dataset="demo", output_dir=elsewhere)
    with pytest.raises(SettingError, match="holds another dataset"):
        check_output(moved)


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        "{}",
        json.dumps({"format": "diffprep dataset", "format_version": 1, "dataset": "demo"}),
    ],
)
def test_a_dataset_json_that_is_not_ours_is_refused(layout: Layout, content: str) -> None:
    layout.output_dir.mkdir()
    layout.dataset_json.write_text(content)
    with pytest.raises(SettingError, match="holds something else"):
        check_output(layout)


def test_a_dataset_json_whose_names_lead_outside_unlinks_nothing(
    layout: Layout, published: FinishedShard, description: DatasetDescription, tmp_path: Path
) -> None:
    victim = tmp_path / "000009.tar"
    victim.write_bytes(b"precious")
    content = json.loads(layout.dataset_json.read_bytes())
    content["shards"].append({**content["shards"][0], "name": "../000009.tar"})
    layout.dataset_json.write_text(json.dumps(content))
    assert set(load_state(layout).files) == {"000000.tar"}
    publish(layout, shards=[published], description=description, nested=False)
    assert victim.read_bytes() == b"precious"


@pytest.mark.parametrize("kept", [0.0, 0.5])
def test_a_damaged_dataset_json_in_a_folder_of_ours_is_written_anew(
    layout: Layout, published: FinishedShard, description: DatasetDescription, kept: float
) -> None:
    whole = layout.dataset_json.read_bytes()
    layout.dataset_json.write_bytes(whole[: int(kept * len(whole))])
    check_output(layout)
    publication = publish(layout, shards=[published], description=description, nested=False)
    assert (publication.added, publication.removed) == ((), ())
    assert layout.dataset_json.read_bytes() == whole


def test_a_file_of_equal_size_with_other_bytes_is_not_the_content(tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    path.write_bytes(b"abc")
    assert holds(path, NamedContent("06b05ab6733a618578af5f94892f3950", 3))
    path.write_bytes(b"abd")
    assert not holds(path, NamedContent("06b05ab6733a618578af5f94892f3950", 3))
    assert not holds(tmp_path / "missing.tar", NamedContent("", 0))


def test_the_search_for_tars_does_not_follow_links_or_go_deeper_than_a_dataset(
    tmp_path: Path,
) -> None:
    deep = tmp_path / "out/a/b/c/d"
    deep.mkdir(parents=True)
    (deep / "x.tar").write_bytes(b"")
    (tmp_path / "out/loop").symlink_to(tmp_path)
    (tmp_path / "x.tar").write_bytes(b"")
    assert first_shard(tmp_path / "out") is None
    (tmp_path / "out/a/b/x.tar").write_bytes(b"")
    assert first_shard(tmp_path / "out") == tmp_path / "out/a/b/x.tar"


def test_shards_of_the_datasets_other_formats_are_no_others(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "storage", "demo", tmp_path / "out", format="mds")
    for folder in (layout.of("raw").output_dir, layout.of("energon").output_dir):
        folder.mkdir(parents=True)
        (folder / "000000.tar").write_bytes(b"")
    check_output(layout)
    (tmp_path / "out/train/64/1.000").mkdir(parents=True)
    (tmp_path / "out/train/64/1.000/shard.000000.mds").write_bytes(b"")
    with pytest.raises(SettingError, match="another dataset"):
        check_output(layout)
