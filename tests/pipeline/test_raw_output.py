"""The output format `raw`, from the recipe to the loader's batches."""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from megatron.energon import WorkerConfig, get_loader, get_val_dataset
from PIL import Image
from typer.testing import CliRunner

from diffprep_assets.cli import app
from diffprep_assets.encode_latents.pixels import member_pixels
from diffprep_assets.shard_plan.members import members_of_shard
from diffprep_assets.shard_plan.table import read_shards
from diffprep_resources.trainers.energon import PreencodedTaskEncoder, RawTaskEncoder

if TYPE_CHECKING:
    from tests.conftest import ProjectFolder

pytestmark = pytest.mark.filterwarnings("ignore")


def samples(folder: Path, encoder: Any) -> dict[str, dict[str, Any]]:
    """What a full pass over train yields, by key: each value of the batch, of that sample."""
    dataset = get_val_dataset(
        folder,
        split_part="train",
        worker_config=WorkerConfig(rank=0, world_size=1, num_workers=0),
        batch_size=3,
        task_encoder=encoder,
    )
    return dict(_rows(get_loader(dataset, watchdog_timeout_seconds=None)))


def _rows(batches: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    for batch in batches:
        for place, key in enumerate(batch["__key__"]):
            values = {name: values[place] for name, values in batch.items() if name[0] != "_"}
            yield key, values


def psnr(one: np.ndarray, other: np.ndarray) -> float:
    error = np.mean((one.astype(float) - other.astype(float)) ** 2)
    return float("inf") if error == 0 else 10 * np.log10(255**2 / error)


def test_raw_and_pre_encoded_outputs_of_one_recipe_agree_sample_by_sample(
    project: "ProjectFolder",
) -> None:
    project.write_pictures(range(7))
    # Exactly a bucket's size: stored byte for byte.
    exif, exact = Image.Exif(), io.BytesIO()
    exif[0x0110] = "a camera"
    Image.linear_gradient("L").resize((64, 64)).convert("RGB").save(exact, "JPEG", exif=exif)
    (project.pictures / "images/exact.jpg").write_bytes(exact.getvalue())
    (project.pictures / "captions/exact.txt").write_text("as it is")
    (project.pictures / "images/broken.jpg").write_bytes(b"\xff\xd8nothing")
    (project.pictures / "captions/broken.txt").write_text("none")
    project.write_recipe(
        image={"image_size": None, "variable_size": True, "max_size": 64},
        output={"formats": ["energon", "raw"], "shard_size": 3},
    )
    report = project.run()
    assert report.ok, report.as_json()
    out = project.folder / "out/set"
    encoded, raw = samples(out, PreencodedTaskEncoder()), samples(out / "raw", RawTaskEncoder())
    assert len(raw) == 8
    assert encoded.keys() == raw.keys()

    dataset = project.dataset()
    for shard in read_shards(dataset.layout.shards):
        for member in members_of_shard(dataset.layout, shard.shard):
            one, other = encoded[member.planned.key], raw[member.planned.key]
            assert one["captions"] == other["captions"] == member.caption
            assert one["metadata"] == other["metadata"]
            height, width = other["images"].shape[1:]
            assert one["latents"].shape[1:] == (height // 8, width // 8)
            pixels = other["images"].permute(1, 2, 0).numpy()
            assert psnr(pixels, member_pixels(dataset, member)) >= 35
    (exactly,) = (row for row in raw.values() if row["captions"] == "as it is")
    wanted = np.asarray(Image.open(exact))
    assert np.array_equal(exactly["images"].permute(1, 2, 0).numpy(), wanted)
    assert report.as_json()["written"] == 8
    assert report.as_json()["rejects"] == {"unreadable_image": 1}


def test_the_raw_command_needs_no_encoder(
    project: "ProjectFolder", monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write_pictures(range(5))
    monkeypatch.chdir(project.folder)
    words = [
        *("diffusion-raw", "--source-type", "directory", "--input-dir", "pictures", "--json"),
        *("--output-dir", "out/cats", "--image-size", "64", "--image-format", "png"),
    ]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert "encode_latents" not in report["stages"]
    assert report["stages"]["shard_raw"]["samples"]["encoded"] == report["written"] == 5
    assert not (project.folder / "out/cats/empty_encodings").exists()
    dataset = project.dataset("cats")
    raw = samples(project.folder / "out/cats", RawTaskEncoder())
    (shard,) = read_shards(dataset.layout.shards)
    for member in members_of_shard(dataset.layout, shard.shard):
        pixels = raw[member.planned.key]["images"].permute(1, 2, 0).numpy()
        assert np.array_equal(pixels, member_pixels(dataset, member))
