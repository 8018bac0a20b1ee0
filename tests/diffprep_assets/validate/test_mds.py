"""Each kind of damage to a published MDS tree is found, and named so that the shard is redone."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from diffprep_assets.layout import Layout
from diffprep_assets.validate.dataset import validate_dataset
from diffprep_assets.validate.mds import validate_mds
from diffprep_assets.validate.report import ValidationReport
from diffprep_resources.mds.layout import INDEX_NAME, ShardConfig
from diffprep_resources.mds.writer import ShardWriter

WIDE = "train/64/2.000/shard.000000.mds"
TALL = "train/64/0.500/shard.000000.mds"


@pytest.fixture
def tree(make_mds_shard, publish_shards, mds_layout: Layout) -> Path:
    publish_shards(
        make_mds_shard(0, [0, 1, 2], skipped={1: "dedup"}),
        make_mds_shard(1, [3]),
        make_mds_shard(0, [4, 5], size=(32, 64)),
    )
    return mds_layout.output_dir


def failed(report: ValidationReport) -> dict[str, list[tuple[str | None, str | None]]]:
    """By check that failed the (shard, key) of its failures."""
    return {
        check.name: [(failure.shard, failure.key) for failure in check.failures]
        for check in report.checks
        if not check.passed
    }


def edit(path: Path, change: Callable[[bytes], bytes]) -> None:
    """New bytes under the name; the finished shard that it was linked to stays as it is."""
    data = change(path.read_bytes())
    path.unlink()
    path.write_bytes(data)


def edit_json(path: Path, change: Callable[[dict], object]) -> None:
    content = json.loads(path.read_bytes())
    change(content)
    path.write_text(json.dumps(content))


def test_what_was_published_is_valid(tree: Path):
    seen: list[int] = []
    report = validate_dataset(tree, report=lambda done, rejected=0: seen.append(done))
    assert failed(report) == {}
    assert [check.name for check in report.checks] == [
        "metadata",
        "sample_counts",
        "pictures",
        "skip_lists",
        "provenance",
    ]
    assert report.facts["samples"] == sum(seen) == 6
    assert report.facts["splits"] == {"train": 6}
    assert report.checks[3].message == "1 lists skip 1 samples"


def test_only_full_decodes_every_sample(tree: Path):
    assert validate_mds(tree).checks[2].message == "6 samples looked at, 3 decoded"
    assert validate_mds(tree, full=True).checks[2].message == "6 samples looked at, 6 decoded"
    assert validate_mds(tree, known=[WIDE]).checks[2].message == "3 samples looked at, 2 decoded"


@pytest.mark.parametrize("place", [40, -3])
def test_a_changed_byte_names_the_shard(tree: Path, place: int):
    def flip(data: bytes) -> bytes:
        place_from_start = place % len(data)
        flipped = bytes([data[place_from_start] ^ 1])
        return data[:place_from_start] + flipped + data[place_from_start + 1 :]

    edit(tree / TALL, flip)
    found = failed(validate_mds(tree))
    assert (TALL, None) in found["sample_counts"]
    assert found.keys() <= {"sample_counts", "pictures", "provenance"}


def test_a_cut_shard_is_named(tree: Path):
    edit(tree / TALL, lambda data: data[:-1])
    assert (TALL, None) in failed(validate_mds(tree))["sample_counts"]


def test_a_missing_shard_is_told_and_no_shard_is_to_be_redone(tree: Path):
    (tree / TALL).unlink()
    found = failed(validate_mds(tree))
    assert found["metadata"] == [(None, None)]


def test_a_shard_that_no_index_names_is_told(tree: Path):
    edit_json(tree / Path(WIDE).parent / INDEX_NAME, lambda index: index["shards"].pop(0))
    report = validate_mds(tree)
    assert failed(report) == {"metadata": [(None, None)]}
    assert WIDE in str(report.failures[0])


@pytest.mark.parametrize("key", ["samples", "column_names", "hashes"])
def test_an_index_that_says_something_else_is_told(tree: Path, key: str):
    def change(index: dict) -> None:
        entry = index["shards"][0]
        entry[key] = 9 if key == "samples" else entry[key][:-1]

    edit_json(tree / Path(WIDE).parent / INDEX_NAME, change)
    report = validate_mds(tree)
    assert failed(report) == {"sample_counts": [(None, None)]}
    assert key in str(report.failures[0])


def test_an_index_that_cannot_be_read_is_told(tree: Path):
    (tree / Path(TALL).parent / INDEX_NAME).write_text("{")
    assert "metadata" in failed(validate_mds(tree))


@pytest.mark.parametrize("skip", ["[3]", "[-1]", "[0.5]", '"all"', "3"])
def test_a_skip_list_that_does_not_fit_is_told(tree: Path, skip: str):
    path = tree / f"{WIDE}.skip.mine.json"
    path.write_text(f'{{"skip": {skip}}}')
    report = validate_mds(tree)
    assert failed(report) == {"skip_lists": [(None, None)]}
    assert path.name in str(report.failures[0])


def test_a_skip_list_that_is_gone_is_told(tree: Path):
    (tree / f"{WIDE}.skip.dedup.json").unlink()
    assert failed(validate_mds(tree)) == {"skip_lists": [(None, None)]}


def test_counts_that_do_not_add_up_are_told(tree: Path):
    edit_json(tree / "dataset.json", lambda content: content["counts"].update(written=7))
    assert failed(validate_mds(tree)).keys() == {"provenance"}


COLUMNS = {"image": "png", "id": "str", "width": "int", "height": "int", "img_latent": "ndarray"}


def write_shard(path: Path, samples: list[dict], columns: dict[str, str] = COLUMNS) -> None:
    with path.open("w+b") as file:
        writer = ShardWriter(file, config=ShardConfig.of(columns), max_samples=len(samples))
        for sample in samples:
            writer.add(sample)
        writer.close()


def test_shards_alone_are_looked_at_by_themselves(tree: Path, tmp_path: Path):
    alone = tmp_path / "alone"
    alone.mkdir()
    shutil.copy(tree / WIDE, alone / "shard.00000.mds")
    assert failed(validate_mds(alone)) == {}
    write_shard(alone / "shard.00001.mds", [{"id": "a"}], {"id": "str"})
    found = failed(validate_mds(alone))
    assert found == {
        "sample_counts": [("shard.00001.mds", None)],
        "pictures": [("shard.00001.mds", "a")],
    }


def test_an_empty_folder_is_no_dataset(tmp_path: Path):
    assert failed(validate_mds(tmp_path)) == {"metadata": [(None, None)]}
