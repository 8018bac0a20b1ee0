"""Colours are checked against colour arithmetic done here, not against ImageCms."""

import io
import struct
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from PIL import Image, ImageCms

from diffprep_resources.errors import SampleReject
from diffprep_resources.pictures.color import profile_of, transform_to_srgb
from diffprep_resources.pictures.decode import load_upright, probe

WHITE = "#ffffff"
# Columns are the D50 primaries of Adobe RGB (1998) and of sRGB.
ADOBE_TO_XYZ = np.array(
    [[0.60974, 0.20528, 0.14919], [0.31111, 0.62567, 0.06322], [0.01947, 0.06087, 0.74457]]
)
SRGB_TO_XYZ = np.array(
    [[0.43607, 0.38515, 0.14307], [0.22249, 0.71687, 0.06061], [0.01392, 0.09708, 0.71410]]
)
D50 = (0.9642, 1.0, 0.8249)


def fixed(*values: float) -> bytes:
    return b"".join(struct.pack(">i", round(value * 65536)) for value in values)


def xyz(*values: float) -> bytes:
    return b"XYZ \0\0\0\0" + fixed(*values)


def gamma_curve(gamma: float) -> bytes:
    return b"curv\0\0\0\0" + struct.pack(">IH", 1, round(gamma * 256))


def icc(space: bytes, tags: Sequence[tuple[bytes, bytes]], *, connection: bytes = b"XYZ ") -> bytes:
    """An ICC version 2 profile of these tags and the three that every profile has."""
    name = b"desc\0\0\0\0" + struct.pack(">I", 5) + b"test\0" + bytes(79)
    every = [(b"desc", name), (b"cprt", b"text\0\0\0\0none\0"), (b"wtpt", xyz(*D50)), *tags]
    table, body = struct.pack(">I", len(every)), b""
    start = 128 + 4 + 12 * len(every)
    for signature, data in every:
        table += signature + struct.pack(">II", start + len(body), len(data))
        body += data + bytes(-len(data) % 4)
    head = struct.pack(
        ">I4xI4s4s4s12x4s", start + len(body), 0x02400000, b"mntr", space, connection, b"acsp"
    )
    return head.ljust(68, b"\0") + fixed(*D50) + bytes(48) + table + body


def rgb_profile(to_xyz: np.ndarray, gamma: float) -> bytes:
    columns = zip((b"rXYZ", b"gXYZ", b"bXYZ"), to_xyz.T, strict=True)
    curves = [(name, gamma_curve(gamma)) for name in (b"rTRC", b"gTRC", b"bTRC")]
    return icc(b"RGB ", [*((name, xyz(*column)) for name, column in columns), *curves])


def ink_lab(c: int, m: int, y: int, k: int) -> tuple[float, float, float]:
    """The Lab colour of a corner of ink space, light and dull as print is."""
    lightness = (100 - 30 * c - 35 * m - 8 * y) * (1 - k)
    strength = 1 - k
    return lightness, strength * (-20 * c + 30 * m), strength * (-25 * c + 45 * y)


def cmyk_profile() -> bytes:
    corners = [(c, m, y, k) for c in (0, 1) for m in (0, 1) for y in (0, 1) for k in (0, 1)]
    nodes = b""
    for corner in corners:
        lightness, a, b = ink_lab(*corner)
        nodes += bytes((round(lightness * 2.55), round(a) + 128, round(b) + 128))
    identity = bytes(range(256))
    table = b"mft1\0\0\0\0" + bytes((4, 3, 2, 0)) + fixed(1, 0, 0, 0, 1, 0, 0, 0, 1)
    return icc(
        b"CMYK", [(b"A2B0", table + identity * 4 + nodes + identity * 3)], connection=b"Lab "
    )


def srgb_of_linear(linear: np.ndarray) -> np.ndarray:
    clipped = np.clip(linear, 0, 1)
    return 255 * np.where(
        clipped <= 0.0031308, 12.92 * clipped, 1.055 * clipped ** (1 / 2.4) - 0.055
    )


def srgb_of_lab(lightness: float, a: float, b: float) -> np.ndarray:
    middle = (lightness + 16) / 116
    f = np.array([middle + a / 500, middle, middle - b / 200])
    xyz_D50 = np.where(f > 6 / 29, f**3, 3 * (6 / 29) ** 2 * (f - 4 / 29)) * D50
    return srgb_of_linear(np.linalg.inv(SRGB_TO_XYZ) @ xyz_D50)


@pytest.fixture
def pixel(limits) -> Callable[..., tuple[int, int, int]]:
    """The first pixel of a file, as it is encoded."""

    def read(data: bytes, *, background: str = WHITE) -> tuple[int, int, int]:
        upright = np.asarray(load_upright(data, limits=limits, background=background))
        red, green, blue = upright[0, 0].tolist()
        return red, green, blue

    return read


@pytest.mark.parametrize("color", [(100, 150, 60), (200, 180, 170), (30, 40, 50), (128, 128, 128)])
@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "TIFF", "AVIF"])
def test_a_wide_gamut_profile_is_converted_to_srgb(kind, color, encoded, pixel):
    profile = rgb_profile(ADOBE_TO_XYZ, 2.2)
    options = {"quality": 100, **({"lossless": True} if kind == "WEBP" else {})}
    data = encoded(Image.new("RGB", (16, 16), color), kind, icc_profile=profile, **options)
    linear = ADOBE_TO_XYZ @ (np.array(color) / 255) ** 2.2
    expected = srgb_of_linear(np.linalg.inv(SRGB_TO_XYZ) @ linear)
    assert np.abs(np.array(pixel(data)) - expected).max() < (4 if kind in ("JPEG", "AVIF") else 1.5)


@pytest.mark.parametrize(
    "ink", [(1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (1, 0, 1, 0), (0, 0, 0, 0), (0, 0, 0, 1)]
)
@pytest.mark.parametrize("kind", ["JPEG", "TIFF"])
def test_a_cmyk_picture_goes_through_its_profile(kind, ink, encoded, pixel):
    flat = Image.new("CMYK", (16, 16), tuple(255 * value for value in ink))
    data = encoded(flat, kind, icc_profile=cmyk_profile(), quality=100)
    expected = srgb_of_lab(*ink_lab(*ink))
    assert np.abs(np.array(pixel(data)) - expected).max() < 8
    plain = np.array(flat.convert("RGB").getpixel((0, 0)))
    assert sum(ink[:3]) == 0 or np.abs(plain - expected).max() > 40


def test_cmyk_without_a_profile_is_converted_and_noted(encoded, pixel, limits):
    data = encoded(Image.new("CMYK", (16, 16), (255, 0, 0, 0)), "JPEG", quality=100)
    assert pixel(data) == (0, 255, 255)
    assert probe(data, limits=limits).notes == ("CMYK without a colour profile; converted plainly",)


def test_a_grey_profile_is_applied(encoded, pixel):
    profile = icc(b"GRAY", [(b"kTRC", gamma_curve(1.0))])
    data = encoded(Image.new("L", (16, 16), 64), icc_profile=profile)
    expected = srgb_of_linear(np.array(64 / 255))
    assert np.abs(np.array(pixel(data)) - expected).max() < 1.5


def test_a_grey_profile_is_applied_beside_transparency(encoded, limits):
    profile = icc(b"GRAY", [(b"kTRC", gamma_curve(1.0))])
    image = Image.new("L", (16, 16), 64)
    image.putpixel((1, 0), 9)
    expected = srgb_of_linear(np.array(64 / 255))
    for data in (
        encoded(image, icc_profile=profile, transparency=9),
        encoded(image.convert("LA"), icc_profile=profile),
    ):
        upright = np.asarray(load_upright(data, limits=limits, background="#ffffff"))
        assert np.abs(upright[0, 0] - expected).max() < 1.5
    keyed = encoded(image, icc_profile=profile, transparency=9)
    shown = load_upright(keyed, limits=limits, background="#102030")
    assert shown.getpixel((1, 0)) == (16, 32, 48)


def test_a_grey_picture_with_an_rgb_profile_goes_through_it(encoded, pixel):
    data = encoded(Image.new("L", (16, 16), 64), icc_profile=rgb_profile(SRGB_TO_XYZ, 1.0))
    assert np.abs(np.array(pixel(data)) - srgb_of_linear(np.array(64 / 255))).max() < 1.5


def test_pixels_under_an_srgb_profile_are_left_as_they_are(encoded, noise, limits):
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    pixels = noise(64, 48)
    data = encoded(pixels, icc_profile=profile)
    upright = load_upright(data, limits=limits, background=WHITE)
    assert np.array_equal(np.asarray(upright), pixels)
    assert probe(data, limits=limits).notes == ()


@pytest.mark.parametrize(
    "profile", [b"not a profile", cmyk_profile(), rgb_profile(ADOBE_TO_XYZ, 2.2)[:200]]
)
def test_a_profile_that_cannot_be_used_is_noted_and_srgb_assumed(profile, encoded, pixel, limits):
    data = encoded(Image.new("RGB", (16, 16), (10, 200, 30)), icc_profile=profile)
    assert pixel(data) == (10, 200, 30)
    assert probe(data, limits=limits).notes == ("colour profile cannot be used; taken as sRGB",)


def test_alpha_is_composited_after_the_profile(encoded, pixel):
    profile = rgb_profile(SRGB_TO_XYZ, 1.0)
    data = encoded(Image.new("RGBA", (16, 16), (64, 64, 64, 128)), icc_profile=profile)
    expected = srgb_of_linear(np.array(64 / 255)) * (128 / 255) + 255 * (127 / 255)
    assert np.abs(np.array(pixel(data)) - expected).max() < 2


def test_sixteen_bit_rgb_is_scaled_not_clipped(raw_png, limits):
    values = np.array([[65535, 32768, 255], [256, 1000, 40000]])
    row = values.astype(">u2").tobytes()
    data = raw_png((2, 1), 16, 2, [row])
    upright = np.asarray(load_upright(data, limits=limits, background=WHITE))
    # Pillow keeps the high byte, which is at most one step off rounding.
    assert np.abs(upright[0] - values / 257).max() <= 1


def test_sixteen_bit_grey_is_scaled_not_clipped(raw_png, encoded, limits):
    values = np.array([[0, 128, 129, 255, 256, 32768, 40000, 65535]])
    expected = np.floor(values / 257 + 0.5)
    png = raw_png((8, 1), 16, 0, [values.astype(">u2").tobytes()])
    tiff = encoded(Image.fromarray(values.astype(np.uint16)), "TIFF")
    pgm = b"P5 8 1 65535\n" + values.astype(">u2").tobytes()
    for data in (png, tiff, pgm):
        upright = np.asarray(load_upright(data, limits=limits, background=WHITE))
        assert np.array_equal(upright, np.repeat(expected[..., None], 3, axis=2))


def test_twelve_bit_grey_tiff_reaches_white(limits):
    tags = [(256, 4, 2), (257, 4, 1), (258, 3, 12), (259, 3, 1), (262, 3, 1), (273, 4, 8)]
    tags += [(277, 3, 1), (278, 4, 1), (279, 4, 3)]
    pixels = b"\xff\xf8\x00\0"
    directory = struct.pack("<H", len(tags))
    for tag, kind, value in tags:
        directory += struct.pack("<HHI", tag, kind, 1) + struct.pack("<I", value)
    data = b"II\x2a\0" + struct.pack("<I", 12) + pixels + directory + bytes(4)
    upright = load_upright(data, limits=limits, background=WHITE)
    assert [upright.getpixel((x, 0)) for x in (0, 1)] == [(255, 255, 255), (128, 128, 128)]


def test_float_pixels_are_unsupported_and_say_what_to_do(encoded, limits):
    data = encoded(Image.new("F", (16, 16), 0.5), "TIFF")
    with pytest.raises(SampleReject, match="save it as 8 or 16 bit") as caught:
        load_upright(data, limits=limits, background=WHITE)
    assert caught.value.code == "unsupported_format"


@pytest.mark.parametrize("mode", ["RGBA", "LA"])
@pytest.mark.parametrize("kind", ["PNG", "WEBP", "TIFF"])
def test_alpha_shows_the_background_and_no_junk_under_it(mode, kind, encoded, pixel):
    junk = (200, 10, 90, 0) if mode == "RGBA" else (200, 0)
    options = {"lossless": True, "exact": True} if kind == "WEBP" else {}
    image = Image.new(mode, (16, 16), junk)
    if kind == "WEBP":
        image = image.convert("RGBA")
    data = encoded(image, kind, **options)
    assert pixel(data) == (255, 255, 255)
    assert pixel(data, background="#102030") == (16, 32, 48)


def test_half_transparent_pixels_are_mixed(encoded, pixel):
    data = encoded(Image.new("RGBA", (16, 16), (0, 100, 200, 51)))
    assert pixel(data, background="#ff0000") == (204, 20, 40)


def test_a_palette_with_transparency_shows_the_background(encoded, pixel, limits):
    image = Image.new("P", (16, 16), 1)
    image.putpalette([9, 9, 9, 200, 10, 90, 0, 0, 255])
    image.putpixel((1, 0), 2)
    one = encoded(image, transparency=1)
    per_entry = encoded(image, transparency=bytes((255, 0, 128)))
    gif = encoded(image, "GIF", transparency=1)
    for data in (one, per_entry, gif):
        assert pixel(data) == (255, 255, 255)
        assert pixel(data, background="#102030") == (16, 32, 48)
    upright = load_upright(per_entry, limits=limits, background=WHITE)
    assert np.abs(np.array(upright.getpixel((1, 0))) - (127, 127, 255)).max() <= 1


@pytest.mark.parametrize("depth", [1, 2, 4, 8, 16])
def test_a_transparent_grey_value_is_found_at_every_depth(depth, raw_png, limits):
    rows = {1: b"\x40", 2: b"\x10", 4: b"\x01", 8: b"\x00\x01", 16: b"\x00\x00\x00\x01"}
    data = raw_png((2, 1), depth, 0, [rows[depth]], before=[(b"tRNS", b"\x00\x01")])
    upright = load_upright(data, limits=limits, background="#102030")
    assert [upright.getpixel((x, 0)) for x in (0, 1)] == [(0, 0, 0), (16, 32, 48)]


@pytest.mark.parametrize("depth", [8, 16])
def test_a_transparent_colour_is_found_at_every_depth(depth, raw_png, limits):
    kind = ">u1" if depth == 8 else ">u2"
    row = np.array(
        [200, 150, 100, 10, 20, 30] if depth == 8 else [51200, 40000, 3000, 10, 900, 60000]
    )
    key = row[:3].astype(">u2").tobytes()
    data = raw_png((2, 1), depth, 2, [row.astype(kind).tobytes()], before=[(b"tRNS", key)])
    upright = load_upright(data, limits=limits, background="#102030")
    assert upright.getpixel((0, 0)) == (16, 32, 48)
    assert upright.getpixel((1, 0)) == ((10, 20, 30) if depth == 8 else (0, 3, 234))


def test_a_lab_tiff_is_converted(encoded, pixel):
    data = encoded(Image.new("LAB", (16, 16), (153, 148, 108)), "TIFF")
    assert np.abs(np.array(pixel(data)) - srgb_of_lab(60, 20, -20)).max() < 3


def test_one_profile_in_many_pictures_is_understood_once(encoded, limits):
    profile = rgb_profile(ADOBE_TO_XYZ, 2.19)
    data = encoded(Image.new("RGB", (16, 16)), icc_profile=profile)
    first = Image.open(io.BytesIO(data))
    loaded = profile_of(first)
    again = profile_of(Image.open(io.BytesIO(data)))
    assert loaded is not None
    assert again is not None
    assert transform_to_srgb(loaded, "RGB") is transform_to_srgb(again, "RGB")
