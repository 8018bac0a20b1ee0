import hashlib
from pathlib import Path

import pytest
from PIL import Image, ImageOps

from diffprep_resources.demo.pictures import draw_picture, draw_pictures
from diffprep_resources.demo.words import COLOURS, PLACES, SHAPES


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pictures")
    draw_pictures(folder, count=120)
    return folder


def digest_of(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


def test_every_picture_has_a_caption_of_its_stem(folder: Path) -> None:
    pictures = {path.stem for path in (folder / "images").iterdir()}
    captions = {path.stem for path in (folder / "captions").iterdir()}
    assert len(pictures) == 120
    assert pictures == captions
    for path in (folder / "captions").iterdir():
        words = path.read_text("utf-8")
        assert any(shape in words for shape in SHAPES)
        assert any(place in words for place in PLACES)


def test_sizes_aspects_and_formats_are_mixed(folder: Path) -> None:
    pictures = []
    for path in sorted((folder / "images").iterdir()):
        with Image.open(path) as opened:
            orientation = opened.getexif().get(0x0112, 1)
            pictures.append((*opened.size, opened.format, opened.mode, orientation))
    areas = [width * height for width, height, *_ in pictures]
    aspects = {round(width / height, 1) for width, height, *_ in pictures}
    assert 100_000 <= min(areas) < 200_000
    assert 600_000 < max(areas) <= 1_000_000
    assert len(aspects) >= 8
    assert min(aspects) >= 0.5
    assert max(aspects) <= 2.0
    assert {picture[2] for picture in pictures} == {"JPEG", "PNG", "WEBP"}
    assert {picture[3] for picture in pictures} >= {"RGB", "L"}
    assert {picture[4] for picture in pictures} >= {1, 3, 6, 8}


def test_the_exif_orientation_makes_a_stored_picture_upright(folder: Path) -> None:
    turned = 0
    for index in range(120):
        drawn = draw_picture(index)
        if drawn.orientation == 1:
            continue
        turned += 1
        path = folder / "images" / f"shapes-{index:04d}{drawn.suffix}"
        with Image.open(path) as opened:
            upright = ImageOps.exif_transpose(opened)
            assert upright.size == drawn.image.size
            difference = [
                abs(first - second)
                for first, second in zip(
                    upright.resize((4, 4)).tobytes(),
                    drawn.image.resize((4, 4)).tobytes(),
                    strict=True,
                )
            ]
        assert max(difference) < 12
    assert turned >= 3


def test_the_captions_colour_is_at_the_captions_place() -> None:
    seen = 0
    for index in range(60):
        drawn = draw_picture(index)
        first = drawn.caption.split(",")[0].split(" and ")[0]
        size, colour, kind = first.split()[1:4]
        if kind in {"ring", "star"} or size == "small" or colour not in COLOURS:
            continue
        place = next(place for place in PLACES if f"{kind} {place}" in first)
        column, row = PLACES[place]
        width, height = drawn.image.size
        at = (round(width * (2 * column + 1) / 6), round(height * (2 * row + 1) / 6))
        pixel = drawn.image.getpixel(at)
        assert isinstance(pixel, tuple)
        assert all(abs(a - b) <= 26 for a, b in zip(pixel, COLOURS[colour], strict=True)), first
        seen += 1
    assert seen > 10


def test_the_same_numbers_give_the_same_files_and_others_do_not(
    folder: Path, tmp_path: Path
) -> None:
    draw_pictures(tmp_path / "again", count=10)
    draw_pictures(tmp_path / "same", count=10)
    draw_pictures(tmp_path / "other", count=10, seed=1)
    assert digest_of(tmp_path / "again") == digest_of(tmp_path / "same")
    assert digest_of(tmp_path / "again") != digest_of(tmp_path / "other")
    name = "images/shapes-0003.jpg"
    assert (folder / name).read_bytes() == (tmp_path / "same" / name).read_bytes()
