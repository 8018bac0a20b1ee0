import io
import json
import os
import pickle
import shutil
import sqlite3
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from megatron.energon.flavors.webdataset.base_webdataset import BaseWebdatasetFactory

from diffprep_assets.energon_prepare.metadata_files import EmptyEncodings
from diffprep_assets.energon_prepare.provenance import DatasetDescription
from diffprep_assets.energon_prepare.publish import FinishedShard, publish
from diffprep_assets.layout import Layout
from diffprep_assets.validate.dataset import validate_dataset
from diffprep_assets.validate.report import ValidationReport, report_lines
from diffprep_resources.errors import SettingError

MakeShard = Callable[..., FinishedShard]


@pytest.fixture(autouse=True)
def quick_garbage_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gc.collect", lambda *_: 0)  # energon's, 0.25 s a pass


@pytest.fixture
def folder(
    layout: Layout, make_shard: MakeShard, description: DatasetDescription, empty: EmptyEncodings
) -> Path:
    """Two buckets, three shards, two splits, eight samples."""
    shards = [
        make_shard(0, [0, 1, 2]),
        make_shard(1, [3, 4, 5], split="val"),
        make_shard(0, [6, 7], size=(32, 64)),
    ]
    described = replace(description, listed=10, rejects={"too_small": 2})
    publish(layout, shards=shards, description=described, nested=True, empty=empty)
    return layout.output_dir


def own_copy(path: Path) -> Path:
    """`path` as a file of its own, so that damage to it leaves the finished shard alone."""
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(data)
    return path


def failed(report: ValidationReport) -> dict[str, list[tuple[str | None, str | None]]]:
    return {
        check.name: [(failure.shard, failure.key) for failure in check.failures]
        for check in report.checks
        if not check.passed
    }


def rewrite(tar: Path, changed: dict[str, bytes | None]) -> None:
    """The tar with some members replaced, or removed where None."""
    with tarfile.open(tar) as old:
        members = [(info.name, old.extractfile(info).read()) for info in old]  # type: ignore[union-attr]
    tar.unlink()
    with tarfile.open(tar, "w:", format=tarfile.USTAR_FORMAT) as new:
        for name, data in members:
            content = changed.get(name, data)
            if content is not None:
                info = tarfile.TarInfo(name)
                info.size = len(content)
                new.addfile(info, io.BytesIO(content))


def saved(value: object) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


def prepared_again(folder: Path) -> Path:
    names = sorted(tar.relative_to(folder).as_posix() for tar in folder.rglob("*.tar"))
    BaseWebdatasetFactory.prepare_dataset(
        folder, names, split_parts_ratio=[("train", 1.0)], shuffle_seed=None, workers=1
    )
    return folder


def prepared_by_energon(folder: Path) -> Path:
    """The folder as another tool leaves it: energon's metadata only."""
    shutil.rmtree(folder / ".nv-meta")
    for name in ("dataset.json", "README.md", "empty_encodings"):
        path = folder / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    prepared_again(folder)
    (folder / ".nv-meta/dataset.yaml").write_text(
        "__module__: megatron.energon\n__class__: CrudeWebdataset\n"
        "subflavors:\n  encoding: preencoded\n"
    )
    return folder


@pytest.mark.parametrize("full", [False, True])
def test_a_published_dataset_passes_every_check(folder: Path, full: bool) -> None:
    told: list[int] = []

    def tell(num_samples: int, rejected: int = 0, /) -> None:
        told.append(num_samples)

    report = validate_dataset(folder, full=full, report=tell)
    assert report.ok, report_lines(report)
    assert sum(told) == report.facts["samples"]
    assert [check.name for check in report.checks] == [
        "metadata",
        "sample_counts",
        "tensors",
        *(["digests"] if full else []),
        "provenance",
        "empty_encodings",
        "loader",
    ]
    assert report.facts["splits"] == {"train": 5, "val": 3, "test": 0}
    assert report.facts["latents"] == {"16x4x8": 6, "16x8x4": 2}
    assert report.facts["samples"] == 8


def test_the_report_reads_as_lines_with_the_failing_shard_and_key(folder: Path) -> None:
    (folder / "empty_encodings/t5_empty.npy").unlink()
    lines = report_lines(validate_dataset(folder))
    assert "FAIL empty_encodings: 1 of 2 files" in lines
    assert "       t5_empty.npy is missing" in lines
    assert "     splits: train 5, val 3, test 0" in lines


def test_a_resample_dataset_passes(
    layout: Layout, make_shard: MakeShard, description: DatasetDescription, empty: EmptyEncodings
) -> None:
    publish(
        layout,
        shards=[make_shard(0, [0, 1], resample=True)],
        description=replace(description, listed=2),
        nested=False,
        empty=empty,
    )
    report = validate_dataset(layout.output_dir, full=True)
    assert report.ok, report_lines(report)


def test_another_tools_dataset_passes_without_our_files(folder: Path) -> None:
    report = validate_dataset(prepared_by_energon(folder), full=True)
    assert report.ok, report_lines(report)
    assert report.facts["splits"] == {"train": 8}


def test_tars_alone_are_checked_as_such(
    layout: Layout, make_shard: MakeShard, description: DatasetDescription
) -> None:
    publish(
        layout, shards=[make_shard(0, [0])], description=description, nested=False, finalize=False
    )
    report = validate_dataset(layout.output_dir)
    assert report.ok
    assert [check.name for check in report.checks] == ["metadata", "sample_counts", "tensors"]
    assert "tars only" in report.checks[0].message
    with own_copy(layout.output_dir / "000000.tar").open("r+b") as file:
        file.truncate(3000)
    assert failed(validate_dataset(layout.output_dir))["sample_counts"][0][0] == "000000.tar"


def test_an_empty_folder_fails(tmp_path: Path) -> None:
    assert not validate_dataset(tmp_path).ok


def test_one_flipped_byte_names_its_shard_and_sample(folder: Path) -> None:
    name = "64/64x32/000001.tar"
    data = bytearray(own_copy(folder / name).read_bytes())
    data[len(data) // 2] ^= 1
    (folder / name).write_bytes(data)
    report = validate_dataset(folder, full=True)
    assert failed(report)["digests"] == [(name, "0000000004")]


def test_a_byte_flipped_after_the_last_sample_is_found_too(folder: Path) -> None:
    name = "64/64x32/000001.tar"
    data = bytearray(own_copy(folder / name).read_bytes())
    data[-1] ^= 1
    (folder / name).write_bytes(data)
    assert failed(validate_dataset(folder, full=True)) == {"digests": [(name, None)]}
    assert validate_dataset(folder).ok


def test_a_truncated_tar_names_the_shard_without_full(folder: Path) -> None:
    name = "64/64x32/000000.tar"
    with own_copy(folder / name).open("r+b") as file:
        file.truncate(30_000)
    found = failed(validate_dataset(folder))
    assert (name, None) in found["sample_counts"]
    assert name in {shard for shard, _ in found["loader"]}


def test_a_missing_tar_or_idx_names_the_shard(folder: Path) -> None:
    (folder / "64/64x32/000001.tar").unlink()
    (folder / "64/32x64/000000.tar.idx").unlink()
    found = failed(validate_dataset(folder))
    assert set(found["metadata"]) == {
        ("64/64x32/000001.tar", None),
        ("64/32x64/000000.tar", None),
    }
    assert ("64/64x32/000001.tar", None) in found["loader"]


def test_a_damaged_header_is_not_taken_for_the_end(folder: Path) -> None:
    name = "64/64x32/000000.tar"
    data = bytearray(own_copy(folder / name).read_bytes())
    at = data.index(b"0000000002.latents.pth")
    data[at] ^= 1
    (folder / name).write_bytes(data)
    found = failed(validate_dataset(folder, full=True))
    assert (name, None) in found["sample_counts"]
    assert found["digests"] == [(name, "0000000002")]


def test_wrong_offsets_in_idx_are_found(folder: Path) -> None:
    path = folder / "64/64x32/000000.tar.idx"
    own_copy(path).write_bytes(path.read_bytes()[8:])
    assert ("64/64x32/000000.tar", None) in failed(validate_dataset(folder))["sample_counts"]


def test_a_count_that_differs_from_the_tar_is_found(folder: Path) -> None:
    path = folder / ".nv-meta/.info.json"
    info = json.loads(path.read_text())
    info["shard_counts"]["64/64x32/000000.tar"] = 2
    path.write_text(json.dumps(info))
    found = failed(validate_dataset(folder))
    assert ("64/64x32/000000.tar", None) in found["sample_counts"]
    assert ("64/64x32/000000.tar", None) in found["provenance"]


def test_index_rows_that_differ_from_the_tar_are_found(folder: Path) -> None:
    with sqlite3.connect(folder / ".nv-meta/index.sqlite") as database:
        database.execute("UPDATE samples SET byte_size = 1 WHERE sample_key = '0000000004'")
    found = failed(validate_dataset(folder))
    assert found == {"sample_counts": [("64/64x32/000001.tar", None)]}
    (folder / ".nv-meta/index.sqlite").write_bytes(b"no database")
    assert "sample_counts" in failed(validate_dataset(folder))


BAD_TENSORS = {
    "NaN or infinity": torch.full((16, 4, 8), float("nan")).to(torch.bfloat16),
    "everywhere": torch.zeros(16, 4, 8, dtype=torch.bfloat16),
    "even sides": torch.randn(16, 3, 8).to(torch.bfloat16),
    "is a view": torch.randn(8, 16, 4, 8).to(torch.bfloat16)[0],
    "of 3 dimensions": torch.randn(4, 8).to(torch.bfloat16),
    "must hold one plain tensor": [1, 2],
    "dtypes": torch.randn(16, 4, 8),
    "json says": torch.randn(16, 4, 4).to(torch.bfloat16),
}


@pytest.mark.parametrize("words", sorted(BAD_TENSORS))
def test_a_tensor_that_nobody_can_train_on_names_shard_and_key(folder: Path, words: str) -> None:
    prepared_by_energon(folder)
    name = "64/64x32/000001.tar"
    rewrite(folder / name, {"0000000004.latents.pth": saved(BAD_TENSORS[words])})
    report = validate_dataset(prepared_again(folder), full=True)
    failures = next(check for check in report.checks if check.name == "tensors").failures
    assert {(failure.shard, failure.key) for failure in failures} == {(name, "0000000004")}
    assert any(words in failure.message for failure in failures)


def test_a_missing_member_names_shard_and_key_and_the_loader_says_so(folder: Path) -> None:
    prepared_by_energon(folder)
    name = "64/32x64/000000.tar"
    rewrite(folder / name, {"0000000006.prompt_embeds.pth": None})
    report = validate_dataset(prepared_again(folder))
    found = failed(report)
    assert (name, "0000000006") in found["tensors"]
    assert (name, "0000000006") in found["loader"]


class Bomb:
    def __reduce__(self) -> tuple:
        return os.mkdir, ("exploded",)


def test_a_pickle_in_a_member_is_refused_and_never_runs(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    prepared_by_energon(folder)
    for data in (saved(Bomb()), pickle.dumps(Bomb())):
        rewrite(folder / "64/64x32/000000.tar", {"0000000000.latents.pth": data})
        found = failed(validate_dataset(prepared_again(folder), full=True))
        assert ("64/64x32/000000.tar", "0000000000") in found["tensors"]
        assert not (tmp_path / "exploded").exists()


def test_excluded_samples_and_shards_are_not_missed(folder: Path) -> None:
    path = folder / ".nv-meta/split.yaml"
    content = yaml.safe_load(path.read_text())
    content["exclude"] = [
        "64/64x32/000000.tar/{0000000000..0000000001}",
        "64/64x32/000001.tar",
        "64/64x32/000000.tar/0000009999",
    ]
    path.write_text(yaml.dump(content))
    report = validate_dataset(folder)
    assert report.ok, report_lines(report)
    assert "3 of 3 samples" in report.checks[-1].message
    assert report.facts["excluded"] == 4


def test_a_split_excluded_whole_does_not_hang(folder: Path) -> None:
    path = folder / ".nv-meta/split.yaml"
    content = yaml.safe_load(path.read_text())
    content["exclude"] = [f"64/64x32/000001.tar/{key:010d}" for key in (3, 4, 5)]
    path.write_text(yaml.dump(content))
    assert validate_dataset(folder).ok


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"train": ["64/64x32/000000.tar"]}, "in no split"),
        ({"val": ["64/64x32/000000.tar", "64/64x32/000001.tar"]}, "in 2 places"),
        ({"train": []}, "split train is empty"),
        ({"test": ["64/64x32/000009.tar"]}, "not in .info.json"),
    ],
)
def test_splits_that_contradict_the_index_fail(folder: Path, changed: dict, words: str) -> None:
    path = folder / ".nv-meta/split.yaml"
    content = yaml.safe_load(path.read_text())
    content["split_parts"] |= changed
    path.write_text(yaml.dump(content))
    metadata = validate_dataset(folder).checks[0]
    assert any(words in str(failure) for failure in metadata.failures)


@pytest.mark.parametrize("name", ["dataset.yaml", "split.yaml", ".info.json", "index.sqlite"])
def test_a_metadata_file_that_is_gone_or_garbage_fails(folder: Path, name: str) -> None:
    path = folder / ".nv-meta" / name
    path.write_bytes(b"\x00\xff[")
    assert not validate_dataset(folder).ok
    path.unlink()
    found = validate_dataset(folder)
    assert not found.checks[0].passed
    assert any(name in str(failure) for failure in found.checks[0].failures)


def test_a_dataset_of_another_encoding_fails_and_an_unknown_one_is_refused(folder: Path) -> None:
    path = folder / ".nv-meta/dataset.yaml"
    path.write_text(path.read_text().replace("preencoded", "raw"))
    assert "subflavors.encoding must be preencoded, got raw" in str(
        validate_dataset(folder).checks[0].failures[0]
    )
    allowed = "preencoded, preencoded_video, raw, mds, fastvideo"
    with pytest.raises(SettingError, match=f"encoding must be one of {allowed}, got 'jpg'"):
        validate_dataset(folder, encoding="jpg")
    with pytest.raises(SettingError, match="there is none at"):
        validate_dataset(folder / "nowhere")


def test_counts_that_do_not_add_up_fail(folder: Path) -> None:
    path = folder / "dataset.json"
    content = json.loads(path.read_text())
    content["counts"]["listed"] += 1
    path.write_text(json.dumps(content))
    (failure,) = validate_dataset(folder).failures
    assert "listed 11 is not written 8 + rejected 2" in failure.message


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((1, 6, 8), np.float32),
        np.ones((1, 5, 8), np.float32),
        np.random.default_rng(0).random((1, 6, 8)),
    ],
)
def test_empty_encodings_that_do_not_fit_the_samples_fail(folder: Path, array) -> None:
    np.save(folder / "empty_encodings/t5_empty.npy", array)
    assert list(failed(validate_dataset(folder))) == ["empty_encodings"]


def test_an_index_that_names_a_path_outside_is_not_followed(folder: Path) -> None:
    path = folder / ".nv-meta/.info.json"
    info = json.loads(path.read_text())
    info["shard_counts"]["../../elsewhere.tar"] = 1
    path.write_text(json.dumps(info))
    failures = validate_dataset(folder).checks[0].failures
    assert any("outside the dataset" in failure.message for failure in failures)
