"""Every source and every image mode through the whole pipeline, against PIL and diffusers."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest
import torch
import xxhash

if TYPE_CHECKING:
    from tests.conftest import Drawing, ProjectFolder

Size = tuple[int, int]
# Upright sizes large enough for buckets of 256 pixels, of several shapes.
LARGE = ((300, 200), (210, 330), (260, 256), (420, 230), (256, 256), (230, 420), (300, 200))
# What is written over a recipe of squares; None removes a key.
CROPPED = {"image_size": 64, "center_crop": True}
VARIABLE = {"image_size": None, "variable_size": True, "max_size": 128}
BUCKETS = {"image_size": None, "buckets": {"tiers": [256]}}


# -- sources: each gives the pictures by source key ------------------------------------------


def directory(project: "ProjectFolder", drawings: list["Drawing"]) -> dict[str, "Drawing"]:
    """Half of them in images/ and captions/, half beside their captions in a subfolder."""
    root = project.pictures
    for folder in ("images", "captions", "more/deep"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    found = {}
    for number, drawing in enumerate(drawings):
        folder, captions = ("images", "captions") if number % 2 else ("more/deep", "more/deep")
        (root / folder / drawing.name).write_bytes(drawing.data)
        (root / captions / f"{drawing.stem}.txt").write_text(drawing.caption, "utf-8")
        found[f"{folder}/{drawing.name}"] = drawing
    (root / "images" / "notes.pdf").write_bytes(b"no picture")
    (root / "images" / ".hidden.jpg").write_bytes(b"hidden")
    project.write_recipe(source={"type": "directory", "input_dir": "pictures"})
    return found


def huggingface(project: "ProjectFolder", drawings: list["Drawing"]) -> dict[str, "Drawing"]:
    """Two parquet files."""
    from datasets import Dataset, Features, Image, Value

    folder = project.folder / "hub" / "data"
    folder.mkdir(parents=True)
    halves = (drawings[:4], drawings[4:])
    found = {}
    for number, half in enumerate(halves):
        name = f"data/train-{number:05d}-of-00002.parquet"
        rows = {
            "image": [{"bytes": drawing.data, "path": drawing.name} for drawing in half],
            "text": [drawing.caption for drawing in half],
        }
        table = Dataset.from_dict(rows, Features({"image": Image(), "text": Value("string")}))
        table.to_parquet(folder.parent / name)
        found |= {f"{name}::{row}": drawing for row, drawing in enumerate(half)}
    project.write_recipe(source={"type": "huggingface", "hf_dataset": "hub"})
    return found


def webdataset(project: "ProjectFolder", drawings: list["Drawing"]) -> dict[str, "Drawing"]:
    """Two tars, captions inside json, written by webdataset itself."""
    from webdataset.writer import TarWriter

    folder = project.folder / "tars" / "a"
    folder.mkdir(parents=True)
    found = {}
    for number, some in enumerate((drawings[:3], drawings[3:])):
        with TarWriter(str(folder / f"{number}.tar")) as tar:
            for drawing in some:
                suffix = drawing.name.rsplit(".")[-1]
                content = {suffix: drawing.data, "json": {"meta": {"prompt": drawing.caption}}}
                tar.write({"__key__": drawing.stem, **content})
                found[f"a/{number}.tar::{drawing.stem}"] = drawing
    project.write_recipe(
        source={"type": "webdataset", "input_path": "tars/*/*.tar"},
        data_format={"caption_key": "json.meta.prompt"},
    )
    return found


# -- image modes: each gives the folder, the size and the crop of an upright picture ----------


def squeezed(width: int, height: int) -> tuple[str, Size, tuple[int, int, int, int]]:
    return ".", (64, 64), (0, 0, width, height)


def centre_cropped(width: int, height: int) -> tuple[str, Size, tuple[int, int, int, int]]:
    side = min(width, height)
    return ".", (64, 64), ((width - side) // 2, (height - side) // 2, side, side)


def variable(width: int, height: int) -> tuple[str, Size, tuple[int, int, int, int]]:
    scale = Fraction(128, max(width, height))
    sides = [16 * math.floor(side * scale / 16 + Fraction(1, 2)) for side in (width, height)]
    return f"128/{sides[0]}x{sides[1]}", (sides[0], sides[1]), (0, 0, width, height)


def bucketed(width: int, height: int) -> tuple[str, Size, tuple[int, int, int, int]]:
    """FORMATS' rule by hand: thirteen shapes of 256 patches, here of 16 pixels."""
    halves = [(wide, 256 // wide) for wide in range(12, 23)]
    shapes = {shape for wide, high in halves for shape in ((wide, high), (high, wide))}
    shapes = {(wide, high) for wide, high in shapes if high <= 2 * wide and wide <= 2 * high}
    assert len(shapes) == 13
    aspect = Fraction(width, height)
    wide, high = min(shapes, key=lambda s: (abs(Fraction(*s) - aspect), Fraction(*s)))
    grow = max(Fraction(16 * wide, width), Fraction(16 * high, height))
    crop_width, crop_height = (
        math.floor(min(whole, 16 * patches / grow) + Fraction(1, 2))
        for whole, patches in ((width, wide), (height, high))
    )
    crop = ((width - crop_width) // 2, (height - crop_height) // 2, crop_width, crop_height)
    return f"256/{16 * wide}x{16 * high}", (16 * wide, 16 * high), crop


@pytest.mark.parametrize(
    ("source", "image", "mode", "sizes"),
    [
        pytest.param(directory, {"image_size": 64}, squeezed, None, id="directory-squeezed"),
        pytest.param(huggingface, CROPPED, centre_cropped, None, id="huggingface-cropped"),
        pytest.param(webdataset, VARIABLE, variable, None, id="webdataset-variable"),
        pytest.param(directory, BUCKETS, bucketed, LARGE, id="directory-buckets"),
        pytest.param(webdataset, CROPPED, centre_cropped, None, id="webdataset-cropped"),
        pytest.param(huggingface, BUCKETS, bucketed, LARGE, id="huggingface-buckets"),
    ],
)
def test_every_field_of_every_sample_is_what_pil_and_diffusers_compute(
    project: "ProjectFolder",
    drawing: Callable[..., "Drawing"],
    expected_sample: Callable[..., dict[str, torch.Tensor]],
    read_samples: Callable[..., dict[str, Any]],
    source: Callable[..., dict[str, "Drawing"]],
    image: dict[str, Any],
    mode: Callable[..., Any],
    sizes: tuple[Size, ...] | None,
):
    drawings = [drawing(number, size=sizes[number] if sizes else None) for number in range(7)]
    pictures = source(project, drawings)
    project.write_recipe_over(model={"vae_latent_mode": "resample"}, image=image)
    report = project.run()
    assert report.error is None
    assert (report.listed, report.written, report.rejects) == (7, 7, {})

    out = project.layout().output_dir
    samples = read_samples(out)
    assert samples.keys() == pictures.keys()
    assert sorted(sample["key"] for sample in samples.values()) == [f"{n:010d}" for n in range(7)]
    folders = set()
    for source_key, picture in pictures.items():
        folder, size, crop = mode(picture.width, picture.height)
        folders.add(folder)
        sample = samples[source_key]
        assert sample["caption"] == picture.caption
        assert sample["metadata"] == {
            "source_key": source_key,
            "original_width": picture.width,
            "original_height": picture.height,
            "width": size[0],
            "height": size[1],
            "crop_left": crop[0],
            "crop_top": crop[1],
            "crop_width": crop[2],
            "crop_height": crop[3],
            "image_digest": xxhash.xxh3_128_hexdigest(picture.data),
            "caption_digest": xxhash.xxh3_128_hexdigest(picture.caption.encode()),
        }
        wanted = expected_sample(picture, crop=crop, size=size)
        assert sample["tensors"].keys() == wanted.keys()
        for name, tensor in sample["tensors"].items():
            assert tensor.dtype == torch.float32
            assert tensor.shape == wanted[name].shape
            difference = (tensor - wanted[name]).abs().max() / wanted[name].abs().max()
            # A scaled picture may be a step or two of 255 from Pillow's, in few of its pixels.
            assert difference < (1e-5 if "prompt" in name else 5e-3), (source_key, name)
    tars = {path.parent.relative_to(out).as_posix() for path in out.rglob("*.tar")}
    assert tars == folders
