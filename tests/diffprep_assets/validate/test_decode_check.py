"""Datasets with each defect, made by rewriting the latents in their tars, and what is said."""

import io
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from diffprep_assets.preview.originals import Originals, originals_of
from diffprep_assets.preview.sampling import chosen_places, published_folder
from diffprep_assets.preview.sampling import stored_sample as read_sample
from diffprep_assets.preview.stored_sample import StoredSample
from diffprep_assets.preview.vae_of import codec_of
from diffprep_assets.validate.decode_check import decode_check
from diffprep_assets.validate.report import Check
from diffprep_resources.encoders.vae_codec import VaeCodec

if TYPE_CHECKING:
    from tests.conftest import ProjectFolder

GONE = Originals(None, missing="it was deleted")
Change = Callable[[StoredSample, np.ndarray, VaeCodec], np.ndarray]


@pytest.fixture(scope="module")
def codec(drawn_dataset: "ProjectFolder") -> VaeCodec:
    folder = published_folder(drawn_dataset.layout().output_dir)
    return codec_of(folder, vae=None, project=drawn_dataset.project, device="cpu")


@pytest.fixture(scope="module")
def originals(drawn_dataset: "ProjectFolder") -> Originals:
    folder = published_folder(drawn_dataset.layout().output_dir)
    return originals_of(folder, project=drawn_dataset.project)


@pytest.fixture
def spoiled(
    drawn_dataset: "ProjectFolder", tmp_path: Path, codec: VaeCodec, originals: Originals
) -> Callable[[Change], Path]:
    """A copy of the dataset whose latents are what a function makes of each sample's z."""

    def spoil(change: Change) -> Path:
        target = tmp_path / "spoiled"
        shutil.copytree(drawn_dataset.layout().output_dir, target)
        folder = published_folder(target)
        for place in chosen_places(folder, count=99, seed=0):
            sample = read_sample(folder, place)
            pixels = originals.of(sample).pixels
            assert pixels is not None
            changed = change(sample, pixels, codec)
            part = next(part for part in place.row.parts if part.name == "latents.pth")
            data = torch_bytes(torch.from_numpy(changed.copy()).to(torch.bfloat16))
            assert len(data) == part.size
            with folder.tar(place.shard).open("r+b") as file:
                file.seek(part.offset)
                file.write(data)
        return target

    return spoil


def torch_bytes(tensor: torch.Tensor) -> bytes:
    buffer = io.BytesIO()
    torch.save(tensor.contiguous(), buffer)
    return buffer.getvalue()


def judge(path: Path, codec: VaeCodec, originals: Originals, count: int = 8) -> Check:
    return decode_check(
        published_folder(path), count=count, seed=0, codec=codec, originals=originals
    )


def scaled(z: np.ndarray, codec: VaeCodec) -> np.ndarray:
    return (z - codec.facts.shift_factor) * codec.facts.scaling_factor


def test_a_good_dataset_passes_with_and_without_its_source(
    drawn_dataset: "ProjectFolder", codec: VaeCodec, originals: Originals
) -> None:
    path = drawn_dataset.layout().output_dir
    with_source = judge(path, codec, originals)
    assert with_source.passed, with_source.failures
    low = re.search(r"PSNR ([0-9.]+) to", with_source.message)
    assert low is not None
    assert float(low[1]) > 20
    alone = judge(path, codec, GONE)
    assert alone.passed, alone.failures
    assert "no source (it was deleted)" in alone.message


DEFECTS: dict[str, tuple[Change, str]] = {
    "no scale": (
        lambda sample, _, codec: sample.arrays["latents"] / codec.facts.scaling_factor,
        "scale: .*was left out",
    ),
    "no shift": (
        lambda sample, _, codec: (
            sample.arrays["latents"] + codec.facts.shift_factor * codec.facts.scaling_factor
        ),
        "shift: .*was left out",
    ),
    "BGR": (
        lambda _, pixels, codec: scaled(codec.mean(pixels[..., ::-1] / 127.5 - 1), codec),
        "channel order: .*BGR",
    ),
    "0 to 1": (
        lambda _, pixels, codec: scaled(codec.mean(pixels / 255), codec),
        r"value range: .*\[0, 1\]",
    ),
    "0 to 255": (
        lambda _, pixels, codec: scaled(codec.mean(pixels.astype(np.float32)), codec),
        "value range: .*0 to 255",
    ),
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_each_defect_is_named_by_the_source(
    defect: str, spoiled: Callable, codec: VaeCodec, originals: Originals
) -> None:
    change, words = DEFECTS[defect]
    check = judge(spoiled(change), codec, originals)
    (failure,) = check.failures
    assert re.search(words, failure.message), failure.message
    undone = re.search(r"undone, .*median ([0-9.]+)", failure.message)
    before = re.search(r"median ([0-9.]+)", check.message)
    assert before is not None
    if defect == "0 to 255":
        assert undone is None
    else:
        assert undone is not None
        assert float(undone[1]) > float(before[1]) + 3


@pytest.mark.parametrize("defect", ["no scale", "no shift", "0 to 1"])
def test_a_defect_is_named_without_the_source(
    defect: str, spoiled: Callable, codec: VaeCodec
) -> None:
    change, words = DEFECTS[defect]
    (failure,) = judge(spoiled(change), codec, GONE, count=4).failures
    assert re.search(words, failure.message), failure.message


def test_pixels_of_0_to_255_fail_without_the_source_too(spoiled: Callable, codec: VaeCodec) -> None:
    change, _ = DEFECTS["0 to 255"]
    assert not judge(spoiled(change), codec, GONE, count=4).passed


def test_latents_of_another_picture_are_named_by_their_key(
    spoiled: Callable, codec: VaeCodec, originals: Originals
) -> None:
    seen: list[str] = []

    def first_as_negative(sample: StoredSample, pixels: np.ndarray, codec: VaeCodec) -> np.ndarray:
        seen.append(sample.key)
        if len(seen) > 1:
            return sample.arrays["latents"]
        return scaled(codec.mean(1 - pixels / 127.5), codec)

    check = judge(spoiled(first_as_negative), codec, originals, count=99)
    (failure,) = check.failures
    assert failure.key == seen[0]
    assert "not those of its picture" in failure.message


def test_the_posterior_of_resample_mode_is_judged_too(
    project: "ProjectFolder", codec: VaeCodec
) -> None:
    project.write_pictures(range(2))
    project.write_recipe(model={"vae_latent_mode": "resample"})
    assert project.run().ok
    folder = published_folder(project.layout().output_dir)
    check: Any = decode_check(
        folder,
        count=2,
        seed=0,
        codec=codec,
        originals=originals_of(folder, project=project.project),
    )
    assert check.passed, check.failures
    assert "latents: 2 decoded" in check.message
    assert "mean: 2 decoded" in check.message
