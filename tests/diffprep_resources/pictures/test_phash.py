import io
import math

import numpy as np
import pytest
from PIL import Image

from diffprep_resources.demo.pictures import draw_picture
from diffprep_resources.errors import SampleReject
from diffprep_resources.pictures.decode import load_gray
from diffprep_resources.pictures.phash import hash_of_thumbnail, perceptual_hash

ORIENTATION = 0x0112
STORED_AS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_90,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_270,
}


@pytest.fixture
def hashed(limits):
    def of(data: bytes, background: str = "#ffffff") -> int | None:
        return perceptual_hash(data, limits=limits, background=background)

    return of


def cloud(width: int, height: int, *, seed: int = 0) -> Image.Image:
    """Smooth colours that no two seeds share."""
    small = np.random.default_rng(seed).integers(0, 256, (6, 6, 3), dtype=np.uint8)
    return Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC)


def differing(one: int | None, other: int | None) -> int:
    assert one is not None
    assert other is not None
    return (one ^ other).bit_count()


def by_definition(pixels: np.ndarray) -> int:
    """Each coefficient as its own sum, the median of the 63, bit 8 v + u."""
    size = 32

    def scale(frequency: int) -> float:
        return math.sqrt((1 if frequency == 0 else 2) / size)

    def wave(frequency: int) -> np.ndarray:
        places = np.arange(size)
        return np.cos(np.pi * (2 * places + 1) * frequency / (2 * size))

    values = [
        scale(v) * scale(u) * float((pixels * np.outer(wave(v), wave(u))).sum())
        for v in range(8)
        for u in range(8)
    ]
    median = sorted(values[1:])[31]
    return sum(1 << place for place in range(1, 64) if values[place] > median)


def test_the_hash_is_that_of_the_definition():
    for seed in range(5):
        pixels = np.random.default_rng(seed).integers(0, 256, (32, 32), dtype=np.uint8)
        found = hash_of_thumbnail(pixels)
        assert found == by_definition(pixels.astype(float))
        assert found is not None
        assert found & 1 == 0
        assert found.bit_count() == 31


def test_a_ramp_has_the_same_hash_on_every_machine():
    """Of its 63 frequencies 56 are 0 but for rounding."""
    ramp = np.tile(np.arange(0, 256, 8, dtype=np.uint8), (32, 1))
    assert hash_of_thumbnail(ramp) == 0
    assert hash_of_thumbnail(255 - ramp) == 0b10101010


def test_a_picture_without_contrast_has_no_hash(encoded, hashed):
    assert hashed(encoded(Image.new("RGB", (300, 200), "red"))) is None
    half = Image.new("L", (320, 320), 100)
    half.paste(107, (0, 0, 160, 320))  # standard deviation 3.5
    assert hashed(encoded(half)) is None
    half.paste(110, (0, 0, 160, 320))  # 5
    assert hashed(encoded(half)) is not None


def test_fine_grain_on_an_even_ground_is_no_contrast(encoded, hashed):
    grain = np.random.default_rng(0).integers(118, 138, (512, 512), dtype=np.uint8)
    assert hashed(encoded(grain)) is None


@pytest.mark.parametrize("size", [(300, 280), (700, 520), (1300, 1100)])
def test_a_jpeg_that_is_decoded_small_has_the_hash_of_its_pixels(size, encoded, hashed):
    for seed in range(3):
        jpeg = encoded(cloud(*size, seed=seed), "JPEG", quality=95)
        pixels = encoded(Image.open(io.BytesIO(jpeg)), compress_level=0)
        assert differing(hashed(jpeg), hashed(pixels)) <= 2


def test_a_jpeg_is_never_decoded_below_the_side_asked_for(encoded, limits):
    sizes = {(255, 900): (255, 900), (511, 700): (511, 700), (512, 900): (256, 450)}
    sizes |= {(2047, 2048): (512, 512), (2048, 3000): (256, 375)}
    for size, expected in sizes.items():
        data = encoded(Image.new("RGB", size), "JPEG")
        assert load_gray(data, limits=limits, background="#ffffff", side=256).size == expected


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_a_picture_stored_on_its_side_has_the_hash_of_the_upright_one(kind, encoded, hashed):
    upright = cloud(640, 520) if kind == "JPEG" else cloud(160, 130)
    expected = hashed(encoded(upright, kind))
    for orientation, transpose in STORED_AS.items():
        exif = Image.Exif()
        exif[ORIENTATION] = orientation
        data = encoded(upright.transpose(transpose), kind, exif=exif)
        assert differing(hashed(data), expected) <= 2
        assert differing(hashed(encoded(upright.transpose(transpose), kind)), expected) > 8


def test_transparent_pixels_show_the_background(encoded, hashed):
    picture = cloud(300, 300).convert("RGBA")
    picture.paste((0, 0, 0, 0), (150, 0, 300, 300))
    found = set()
    for background in ("#ffffff", "#000000"):
        composed = picture.convert("RGB")
        composed.paste(background, (150, 0, 300, 300))
        assert hashed(encoded(picture), background) == hashed(encoded(composed))
        found.add(hashed(encoded(composed)))
    assert len(found) == 2


def test_colour_depth_and_format_play_no_part(encoded, hashed):
    gray = cloud(300, 260).convert("L")
    expected = hashed(encoded(gray))
    assert hashed(encoded(gray.convert("RGB"))) == expected
    assert hashed(encoded(np.asarray(gray).astype(np.uint16) * 257)) == expected
    assert differing(hashed(encoded(gray, "WEBP", quality=90)), expected) <= 2
    cmyk = gray.convert("RGB").convert("CMYK")
    assert differing(hashed(encoded(cmyk, "JPEG", quality=95)), expected) <= 2


def test_copies_of_drawn_pictures_lie_within_four_bits_and_mirrored_ones_do_not(encoded, hashed):
    for number in range(8):
        image = draw_picture(number).image.convert("RGB")
        expected = hashed(encoded(image, "JPEG", quality=95))
        smaller = image.resize((image.width // 2, image.height // 2), Image.Resampling.LANCZOS)
        for copy in (encoded(image, "JPEG", quality=60), encoded(smaller, "JPEG", quality=90)):
            assert differing(hashed(copy), expected) <= 4
        mirrored = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        assert differing(hashed(encoded(mirrored)), expected) > 8


def test_what_bucket_refuses_is_refused_before_a_pixel_is_decoded(encoded, hashed, raw_png):
    bomb = raw_png((50_000, 50_000), 8, 2, [])
    cut = encoded(cloud(400, 400), "JPEG")[:-200]
    too_wide = raw_png((70_000, 20), 8, 0, [])
    refused = {"too_large": (bomb, too_wide), "unreadable_image": (cut, b"", b"<html>")}
    for code, files in refused.items():
        for data in files:
            with pytest.raises(SampleReject) as caught:
                hashed(data)
            assert caught.value.code == code
