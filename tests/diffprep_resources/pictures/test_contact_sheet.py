"""Sheets of small pictures: what is kept is marked, and the bytes stay within bounds."""

from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from diffprep_resources.pictures.contact_sheet import GAP, Tile, contact_sheet


def plain(colour: str, size: tuple[int, int] = (200, 100)) -> Image.Image:
    return Image.new("RGB", size, colour)


def noise(number: int) -> Image.Image:
    rng = np.random.default_rng(number)
    return Image.fromarray(rng.integers(0, 256, (300, 300, 3), dtype=np.uint8))


def opened(data: bytes) -> Image.Image:
    image = Image.open(BytesIO(data))
    assert image.format == "JPEG"
    return image.convert("RGB")


def pixel(image: Image.Image, x: int, y: int) -> tuple[int, int, int]:
    value = image.getpixel((x, y))
    assert isinstance(value, tuple)
    return value[0], value[1], value[2]


def test_tiles_stand_in_rows_and_the_last_row_may_be_short():
    tiles = [Tile(plain("red")), Tile(plain("lime")), Tile(plain("blue"))]
    sheet = opened(contact_sheet(tiles, columns=2, side=100))
    assert sheet.size == (GAP + 2 * (100 + GAP), GAP + 2 * (100 + GAP))
    reds = pixel(sheet, GAP + 50, GAP + 50)
    blues = pixel(sheet, GAP + 50, 2 * GAP + 150)
    assert reds[0] - reds[2] > 150
    assert blues[2] - blues[0] > 150
    assert max(pixel(sheet, 2 * GAP + 150, 2 * GAP + 150)) < 60


def test_no_more_columns_than_tiles():
    assert opened(contact_sheet([Tile(plain("red"))], columns=9, side=50)).width == 50 + 2 * GAP


def test_what_is_cut_off_is_dimmed_and_what_is_kept_is_not():
    tile = Tile(plain("white", (200, 200)), kept=(0.25, 0.0, 0.75, 1.0))
    sheet = opened(contact_sheet([tile], columns=1, side=200))
    assert min(pixel(sheet, GAP + 100, GAP + 100)) > 240
    assert max(pixel(sheet, GAP + 20, GAP + 100)) < 130
    assert max(pixel(sheet, GAP + 180, GAP + 100)) < 130
    frame = np.asarray(sheet)[GAP + 100, GAP + 45 : GAP + 56].astype(int)
    assert (frame[:, 0] - frame[:, 2]).max() > 100


def test_a_whole_picture_is_framed_at_its_edge_and_one_without_a_crop_is_not():
    kept, free = (
        opened(contact_sheet([Tile(plain("white"), kept=box)], columns=1, side=200))
        for box in ((0.0, 0.0, 1.0, 1.0), None)
    )
    edge = pixel(kept, GAP + 1, GAP + 100)
    assert edge[0] - edge[2] > 80
    assert min(pixel(free, GAP + 1, GAP + 100)) > 240


@pytest.mark.parametrize("size", [(5000, 1), (1, 5000), (3, 3)])
def test_odd_shapes_are_shown(size: tuple[int, int]):
    tile = Tile(plain("red", size), kept=(0.0, 0.0, 0.01, 0.01))
    assert opened(contact_sheet([tile], columns=1, side=60)).width == 60 + 2 * GAP


@pytest.mark.parametrize("mode", ["L", "P", "CMYK", "I;16", "LA"])
def test_any_mode_is_shown(mode: str):
    assert contact_sheet([Tile(Image.new(mode, (40, 30)))], columns=1, side=60)


def test_transparent_pixels_are_white():
    sheet = opened(contact_sheet([Tile(Image.new("RGBA", (50, 50)))], columns=1, side=50))
    assert min(pixel(sheet, GAP + 25, GAP + 25)) > 240


def test_labels_take_a_line_of_their_own_and_are_shortened_to_the_tile():
    without = opened(contact_sheet([Tile(plain("red"))], columns=1, side=100))
    label = "images/deep/down/a_rather_long_name_of_a_picture_0001.jpg"
    sheet = opened(contact_sheet([Tile(plain("red"), label)], columns=1, side=100))
    assert sheet.width == without.width
    assert sheet.height > without.height
    strip = np.asarray(sheet)[without.height - GAP :]
    assert strip.max() > 150
    assert strip[:, :GAP].max() < 80
    assert strip[:, -GAP:].max() < 80


def test_the_bytes_stay_below_the_bound():
    tiles = [Tile(noise(number), f"{number}") for number in range(12)]
    free = contact_sheet(tiles, columns=4, side=160)
    bound = contact_sheet(tiles, columns=4, side=160, max_bytes=40_000)
    assert len(bound) <= 40_000 < len(free)
    assert opened(bound).width <= opened(free).width


def test_a_bound_that_cannot_be_kept_is_refused():
    with pytest.raises(ValueError, match="max_bytes must be at least"):
        contact_sheet([Tile(noise(0))], columns=1, side=160, max_bytes=100)


def test_very_many_tiles_stay_within_what_browsers_show():
    tiles = [Tile(plain("red", (8, 8)))] * 700
    assert max(opened(contact_sheet(tiles, columns=1, side=100)).size) <= 16_384 * 2


def test_the_same_tiles_give_the_same_bytes():
    tiles = [Tile(noise(1), "one", kept=(0.1, 0.1, 0.9, 0.9))]
    assert contact_sheet(tiles, columns=1, side=90) == contact_sheet(tiles, columns=1, side=90)


@pytest.mark.parametrize(("columns", "side"), [(0, 100), (1, 5)])
def test_wrong_numbers_are_refused(columns: int, side: int):
    with pytest.raises(ValueError, match="a contact sheet needs"):
        contact_sheet([Tile(plain("red"))], columns=columns, side=side)
    with pytest.raises(ValueError, match="got 0 tiles"):
        contact_sheet([], columns=3, side=100)
