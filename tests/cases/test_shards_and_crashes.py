"""Shards, reruns, crashes: those of the known cases that no other test is named for.

Kills are in tests/survival/test_kill.py, changes of each field in test_every_field.py, edits of the
source in test_reuse.py, damage in test_world.py, two runs at once in diffprep_assets/test_cli.py.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from diffprep_assets import partition_run
from diffprep_assets.shard_plan.table import read_shards
from diffprep_assets.validate.dataset import validate_dataset
from diffprep_resources.demo.encoders import build_tiny_flux

if TYPE_CHECKING:
    from tests.conftest import ProjectFolder

PUBLISHED = ("000000.tar", "000001.tar")


def sizes(project: "ProjectFolder") -> list[int]:
    """Samples in each shard of the plan."""
    return [shard.num_samples for shard in read_shards(project.layout().shards)]


def test_ten_samples_in_shards_of_eight_are_eight_and_two(project: "ProjectFolder"):
    project.write_pictures(range(10))
    project.write_recipe(output={"shard_size": 8})
    assert project.run().written == 10
    assert sizes(project) == [8, 2]
    info = json.loads((project.layout().nv_meta / ".info.json").read_bytes())
    assert list(info["shard_counts"].values()) == [8, 2]


def test_one_sample_and_four_workers_work_and_train_is_never_empty(project: "ProjectFolder"):
    project.write_pictures([0])
    project.write_recipe(output={"train_split": 0.5})
    report = project.run(workers=4)
    assert (report.error, report.written, sizes(project)) == (None, 1, [1])
    published = json.loads(project.layout().dataset_json.read_bytes())["counts"]["splits"]
    assert published == {"train": 1, "val": 0, "test": 0}


def test_an_empty_split_is_told_and_not_written(project: "ProjectFolder"):
    project.write_pictures(range(2))
    splits = {"train": 0.6, "val": 0.3, "test": 0.1}
    project.write_recipe(output={"shard_size": 1, "splits": splits})
    report = project.run()
    assert (report.error, sizes(project)) == (None, [1, 1])
    published = json.loads(project.layout().dataset_json.read_bytes())["counts"]["splits"]
    assert published == {"train": 1, "val": 1, "test": 0}
    assert report.empty_splits == ["test"]
    told = [line for line in report.lines() if isinstance(line, str) and "is empty" in line]
    assert len(told) == 1
    assert told[0].startswith("Split test is empty: ")


def test_a_lost_or_damaged_tar_is_named_by_validate(project: "ProjectFolder"):
    project.write_pictures(range(6))
    project.write_recipe(output={"shard_size": 4})
    project.run()
    tar = project.layout().output_dir / PUBLISHED[1]
    data = tar.read_bytes()
    for damaged, keys in (
        (None, set()),
        (data[: len(data) * 3 // 4], {"0000000005"}),
        (data[:2000] + bytes([data[2000] ^ 1]) + data[2001:], {"0000000004"}),
    ):
        tar.unlink()
        if damaged is not None:
            tar.write_bytes(damaged)
        failures = validate_dataset(project.layout().output_dir, full=True).failures
        assert {failure.shard for failure in failures if failure.shard} == {PUBLISHED[1]}
        assert {failure.key for failure in failures if failure.key} == keys
        tar.write_bytes(data)


@pytest.fixture(scope="module")
def infinite_encoders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A VAE whose latents are all infinite."""
    from safetensors.torch import load_file, save_file

    folder = tmp_path_factory.mktemp("infinite") / "flux"
    build_tiny_flux(folder)
    path = folder / "vae" / "diffusion_pytorch_model.safetensors"
    weights = load_file(path)
    weights["encoder.conv_out.bias"].fill_(float("inf"))
    save_file(weights, path, metadata={"format": "pt"})
    return folder


def test_too_many_rejects_while_encoding_stop_the_run_and_those_of_bucket_do_not(
    project: "ProjectFolder", infinite_encoders: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(partition_run, "FEW_SAMPLES", 4)
    project.write_pictures(range(6))
    for number in range(8):
        (project.pictures / "images" / f"broken{number}.jpg").write_bytes(b"\xff\xd8 broken")
    project.write_recipe(output={"shard_size": 2})
    good = project.run()
    assert (good.error, good.written, good.rejects["unreadable_image"]) == (None, 6, 8)

    report = project.run(changes={"model.vae_path": str(infinite_encoders)})
    assert report.error is not None
    stage, words = report.error
    assert stage == "encode_latents"
    assert "4 of 4 samples rejected (100.0%)" in words
    assert "output.max_reject_rate 0.05: non_finite 4" in words
    assert report.summaries["encode_latents"].done == 2
    # The other encoder's work goes on, and the dataset stays as it was.
    assert report.summaries["encode_text"].fresh == 3
    assert "shard" not in report.summaries
    assert validate_dataset(project.layout().output_dir, full=True).ok

    changes = {"model.vae_path": str(infinite_encoders), "output.max_reject_rate": 1.0}
    allowed = project.run(changes=changes)
    assert allowed.error is not None
    assert "0 samples were written (6 rejected while encoding)" in allowed.error[1]
    assert validate_dataset(project.layout().output_dir, full=True).ok
