"""FastVideo's files, and Energon's clips, as `diffprep preview` shows them."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from diffprep_assets.cli import app
from diffprep_assets.preview.looks import decoded_frames, looks
from diffprep_assets.preview.originals import Originals
from diffprep_assets.preview.sampling import chosen_places, published_folder, stored_sample
from diffprep_assets.preview.shown_frames import shown_frames
from diffprep_assets.preview.stored_sample import StoredSample
from diffprep_resources.demo.wan import build_tiny_wan
from diffprep_resources.encoders.vae_codec import find_vae
from diffprep_resources.encoders.wan_codec import WanCodec
from diffprep_resources.fastvideo.rows import FastVideoRow, write_rows
from diffprep_resources.hub.models import ModelHub

FRAMES = 5


@pytest.fixture(scope="module")
def wan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("encoders") / "wan"
    build_tiny_wan(folder, workload="t2v")
    return folder


@pytest.fixture(scope="module")
def codec(wan: Path) -> WanCodec:
    return WanCodec(find_vae(str(wan), hub=ModelHub(base_folder=wan)), device="cpu")


def clip(number: int, *, width: int, height: int) -> np.ndarray:
    """uint8 [T, H, W, 3], darker from frame to frame."""
    rng = np.random.default_rng(number)
    ground = rng.integers(100, 255, (height, width, 3))
    return np.stack([ground * (FRAMES - frame) // FRAMES for frame in range(FRAMES)]).astype(
        np.uint8
    )


@pytest.fixture(scope="module")
def folder(codec: WanCodec, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two buckets of another tool's FastVideo dataset: three rows in two files, and one row."""
    path = tmp_path_factory.mktemp("published") / "clips"
    files = {
        "32x16x5/training_dataset/worker_0/data_chunk_0.parquet": [0, 1],
        "32x16x5/training_dataset/worker_0/data_chunk_1.parquet": [2],
        "16x32x5/validation_dataset/worker_0/data_chunk_0.parquet": [3],
    }
    for name, numbers in files.items():
        width, height = map(int, name.split("x5/")[0].split("x"))
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        rows = [_row(number, codec, width=width, height=height) for number in numbers]
        write_rows(path / name, rows, workload="t2v")
    return path


def _row(number: int, codec: WanCodec, *, width: int, height: int) -> FastVideoRow:
    latents = codec.mean(clip(number, width=width, height=height))
    text = np.ones((3, 8), np.float32)
    tensors = {"vae_latent": latents, "text_embedding": text}
    name = f"{number}.mp4"
    return FastVideoRow(f"{number}", name, f"clip {number}", width, height, FRAMES, 16.0, tensors)


def test_rows_of_every_bucket_get_their_turn(folder: Path):
    found = published_folder(folder)
    assert (found.encoding, sum(count or 0 for count in found.counts.values())) == ("fastvideo", 4)
    samples = [stored_sample(found, place) for place in chosen_places(found, count=9, seed=0)]
    assert {(one.key, one.split, one.source_key) for one in samples} == {
        ("0", "train", "0.mp4"),
        ("1", "train", "1.mp4"),
        ("2", "train", "2.mp4"),
        ("3", "val", "3.mp4"),
    }
    assert samples[0].shard == "16x32x5/validation_dataset/worker_0"
    few = chosen_places(found, count=2, seed=0)
    assert len({place.shard.split("/")[0] for place in few}) == 2


def test_first_middle_and_last_frame_of_the_decoded_clip_are_shown(folder: Path, codec: WanCodec):
    found = published_folder(folder)
    places = chosen_places(found, count=9, seed=0)
    shown = list(looks(found, places, codec=codec, originals=Originals(None, missing="none")))
    look = next(look for look in shown if look.sample.key == "3")
    assert (look.size, look.drawn, look.originals) == ("16x32x5", "vae_latent", ())
    whole = codec.decoded(codec.mean(clip(3, width=16, height=32)))
    wanted = np.round((whole[[0, 2, 4]].clip(-1, 1) + 1) * 127.5).astype(np.uint8)
    assert np.array_equal(np.stack(look.pictures), wanted)


def test_energons_latents_are_undone_before_they_are_decoded(folder: Path, codec: WanCodec):
    place = chosen_places(published_folder(folder), count=1, seed=0)[0]
    sample = stored_sample(published_folder(folder), place)
    raw = sample.arrays["vae_latent"]
    tar = StoredSample(
        *("000000.tar", "0", "train", "c"),
        arrays={"latents": codec.normalised(raw)},
        metadata={"num_frames": FRAMES},
    )
    drawn, frames = decoded_frames(tar, codec)
    assert drawn == "latents"
    assert np.abs(frames.astype(int) - decoded_frames(sample, codec)[1]).max() <= 1


def test_one_frame_is_shown_three_times():
    assert shown_frames(np.arange(7)[:, None]).ravel().tolist() == [0, 3, 6]
    assert shown_frames(np.zeros((1, 2))).shape == (3, 2)


def test_the_command_writes_sheet_and_page(
    folder: Path, wan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DIFFPREP_PROJECT", raising=False)
    options = ["--html", "--samples", "2", "--json", "--device", "cpu", "--vae", str(wan)]
    result = CliRunner().invoke(app, ["preview", str(folder), "p.html", *options])
    assert result.exit_code == 0, result.output
    content = json.loads(result.output)
    assert {sample["size"] for sample in content["samples"]} == {"32x16x5", "16x32x5"}
    assert all("dataset.json" in sample["source_missing"] for sample in content["samples"])
    page = (tmp_path / "p.html").read_text("utf-8")
    assert page.count("<img") == 6
    assert "last frame, decoded, 3.mp4" in page
    with Image.open(tmp_path / "p.jpg") as sheet:
        assert sheet.width > sheet.height
