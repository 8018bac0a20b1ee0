from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from diffprep_assets.energon_prepare.metadata_files import EmptyEncodings
from diffprep_assets.energon_prepare.provenance import DatasetDescription
from diffprep_assets.energon_prepare.publish import FinishedShard, publish
from diffprep_assets.layout import Layout
from diffprep_assets.validate.dataset import validate_dataset
from diffprep_assets.validate.loader_pass import Pass, loader_check, to_read
from diffprep_assets.validate.metadata import read_folder
from diffprep_assets.validate.report import ValidationReport, report_lines

MakeShard = Callable[..., FinishedShard]


@pytest.fixture(autouse=True)
def quick_garbage_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gc.collect", lambda *_: 0)  # energon's, 0.25 s a pass


@pytest.fixture
def folder(
    layout: Layout, make_shard: MakeShard, description: DatasetDescription, empty: EmptyEncodings
) -> Path:
    """Two buckets, each a dataset of its own; two splits, five shards, one of nine skipped."""
    shards = [
        make_shard(0, [0, 1, 2]),
        replace(make_shard(1, [3, 4]), skipped={4: "skip_list:bad"}),
        make_shard(2, [5]),
        make_shard(3, [6], split="val"),
        make_shard(0, [7, 8], size=(32, 64)),
    ]
    described = replace(description, listed=9, layout="per_bucket")
    publish(layout, shards=shards, description=described, nested=True, empty=empty)
    return layout.output_dir


def failed(report: ValidationReport) -> dict[str, list[tuple[str | None, str | None]]]:
    return {
        check.name: [(failure.shard, failure.key) for failure in check.failures]
        for check in report.checks
        if not check.passed
    }


@pytest.mark.parametrize("full", [False, True])
def test_buckets_that_are_datasets_of_their_own_pass_as_one(folder: Path, full: bool) -> None:
    report = validate_dataset(folder, full=full)
    assert report.ok, report_lines(report)
    assert "in 2 datasets" in report.checks[0].message
    assert report.checks[-1].message == "8 of 8 samples came out of energon's loader"
    assert report.facts["splits"] == {"train": 8, "val": 1, "test": 0}
    assert report.facts["latents"] == {"16x4x8": 6, "16x8x4": 2}


def test_what_is_wrong_in_a_bucket_names_its_shard_from_the_output_folder(folder: Path) -> None:
    tar = folder / "64/64x32/000002.tar"
    data = tar.read_bytes()
    tar.unlink()
    tar.write_bytes(data[:3000])
    found = failed(validate_dataset(folder))
    assert ("64/64x32/000002.tar", None) in found["sample_counts"]
    assert "64/64x32/000002.tar" in {shard for shard, _ in found["loader"]}


@pytest.mark.parametrize(
    ("name", "check"),
    [
        ("64/32x64/.nv-meta/split.yaml", "metadata"),
        ("64/32x64/.nv-meta/index.uuid", "metadata"),
        ("metadataset.yaml", "metadata"),
    ],
)
def test_a_missing_file_of_one_bucket_or_over_all_fails(
    folder: Path, name: str, check: str
) -> None:
    (folder / name).unlink()
    assert check in failed(validate_dataset(folder))


def test_a_metadataset_that_energon_cannot_open_fails(folder: Path) -> None:
    path = folder / "metadataset.yaml"
    path.write_text(path.read_text().replace("./64/32x64", "./64/elsewhere"))
    failures = validate_dataset(folder).failures
    assert all(failure.message.startswith("metadataset.yaml, ") for failure in failures)
    assert len(failures) == 2  # train and val


def test_a_skip_that_split_yaml_does_not_know_of_fails(folder: Path) -> None:
    path = folder / "64/64x32/.nv-meta/split.yaml"
    path.write_text(path.read_text().replace("- 000001.tar/0000000004", "- 000009.tar"))
    assert failed(validate_dataset(folder)) == {"provenance": [("64/64x32/000001.tar", None)]}


def test_only_the_shards_that_are_asked_for_are_read(folder: Path) -> None:
    found, _ = read_folder(folder, encoding="preencoded")
    expected = {"64/64x32/000001.tar": 1, "64/64x32/000002.tar": 1, "64/32x64/000000.tar": 2}
    check, seen = loader_check(found, expected=expected)
    assert check.passed, check.failures
    assert dict(seen.by_shard) == expected
    assert "of 3 shards; the others were read by an earlier validation" in check.message
    wrong, _ = loader_check(found, expected={**expected, "64/64x32/000002.tar": 2})
    assert [failure.shard for failure in wrong.failures] == ["64/64x32/000002.tar"]


def test_a_sample_that_is_excluded_and_comes_out_fails() -> None:
    seen = Pass(exclude=frozenset({"b/0.tar/01", "b/1.tar"}), bucket="b")
    sources = [SimpleNamespace(shard_name=name) for name in ("0.tar", "0.tar", "1.tar")]
    batch = {
        "latents": torch.zeros(3, 1, 2, 2),
        "__key__": ["00", "01", "02"],
        "__sources__": sources,
    }
    seen.add(batch)
    assert [(failure.shard, failure.key) for failure in seen.failures] == [
        ("b/0.tar", "01"),
        ("b/1.tar", "02"),
    ]


def test_a_large_dataset_of_which_only_skips_changed_is_read_in_part() -> None:
    expected = {f"{number:06d}.tar": 1000 for number in range(100)}
    known = set(expected) - {"000099.tar"}
    skips = {f"{number:06d}.tar": 3 for number in range(20, 60)}
    read = to_read(expected, known, excluded=skips)
    assert "000099.tar" in read
    assert 2 <= len(read) <= 9
    assert set(read) - {"000099.tar"} <= set(skips)
    assert to_read(expected, known - {"000050.tar"}, excluded={}).keys() >= {"000050.tar"}
    assert to_read(expected, (), excluded=skips) == expected
    small = dict.fromkeys(["a.tar", "b.tar"], 10)
    assert to_read(small, {"a.tar", "b.tar"}, excluded={}) == small
