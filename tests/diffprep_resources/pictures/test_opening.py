import struct

import pytest
from PIL import Image

from diffprep_resources.errors import SampleReject
from diffprep_resources.pictures.decode import load_upright, probe
from diffprep_resources.pictures.opening import (
    MAX_SIDE,
    PictureLimits,
    open_picture,
    reading_picture,
)

WHITE = "#ffffff"


def code_of(data: bytes, limits: PictureLimits) -> str:
    """The one code that both ways of reading give."""
    codes = set()
    for read in (probe, lambda d, limits: load_upright(d, limits=limits, background=WHITE)):
        with pytest.raises(SampleReject) as caught:
            read(data, limits=limits)
        codes.add(caught.value.code)
    (code,) = codes
    return code


@pytest.mark.parametrize(
    ("error", "code", "transient"),
    [
        (ValueError("odd"), "unreadable_image", False),
        (RecursionError("deep"), "unreadable_image", False),
        (MemoryError(), "unreadable_image", True),
        (Image.DecompressionBombError("too many pixels"), "too_large", False),
        (SampleReject("too_small", "1x1"), "too_small", False),
    ],
)
def test_whatever_is_raised_while_reading_becomes_a_reject(error, code, transient):
    with pytest.raises(SampleReject) as caught, reading_picture():
        raise error
    assert (caught.value.code, caught.value.transient) == (code, transient)


def test_the_message_names_the_original_error():
    message = r"cannot be decoded \(KeyError: 'tile'\)"
    with pytest.raises(SampleReject, match=message), reading_picture():
        raise KeyError("tile")


def test_a_tiff_turns_itself_so_nothing_is_left_to_turn(encoded, noise, limits):
    exif = Image.Exif()
    exif[0x0112] = 6
    for kind, left in (("TIFF", 1), ("PNG", 6), ("JPEG", 6)):
        opened = open_picture(encoded(noise(40, 20), kind, exif=exif), limits=limits)
        assert (opened.width, opened.height, opened.orientation) == (20, 40, left)


def test_messages_say_the_size_and_the_limit(raw_png):
    limits = PictureLimits(max_pixels=1000, min_side=16)
    with pytest.raises(SampleReject, match="100x8 pixels; no side may be under 16"):
        open_picture(raw_png((100, 8), 8, 2, []), limits=limits)
    with pytest.raises(SampleReject, match="100x20 pixels; at most 1000 pixels"):
        open_picture(raw_png((100, 20), 8, 2, []), limits=limits)
    wide = PictureLimits(max_pixels=10**9, min_side=1)
    with pytest.raises(SampleReject, match="no side may be over 65535"):
        open_picture(raw_png((MAX_SIDE + 1, 20), 8, 2, []), limits=wide)


def test_a_reject_message_is_the_same_every_time(limits):
    messages = set()
    for _ in range(3):
        with pytest.raises(SampleReject) as caught, reading_picture():
            open_picture(b"no picture at all", limits=limits)
        messages.add(str(caught.value))
    assert len(messages) == 1
    assert "0x" not in messages.pop()


def test_html_saved_as_jpg_is_unreadable_and_the_message_shows_its_start(limits):
    page = b"<!DOCTYPE html><html><body>404</body></html>"
    assert code_of(page, limits) == "unreadable_image"
    with pytest.raises(SampleReject, match="<!DOCTYPE html>"):
        probe(page, limits=limits)


@pytest.mark.parametrize("size", [(1, 1), (1, 3000), (2000, 10), (15, 16)])
def test_a_side_under_the_limit_is_too_small(size, encoded):
    limits = PictureLimits(max_pixels=150_000_000, min_side=16)
    assert code_of(encoded(Image.new("RGB", size)), limits) == "too_small"


def test_a_picture_of_exactly_the_limits_is_kept(encoded):
    data = encoded(Image.new("RGB", (40, 16)))
    assert probe(data, limits=PictureLimits(max_pixels=640, min_side=16)).height == 16
    assert code_of(data, PictureLimits(max_pixels=639, min_side=16)) == "too_large"


@pytest.mark.parametrize("size", [(20_000, 10_000), (60_000, 60_000), (100_000, 20)])
def test_a_huge_png_header_is_too_large_before_any_pixel(size, raw_png, limits):
    assert code_of(raw_png(size, 8, 2, []), limits) == "too_large"


@pytest.mark.parametrize("kind", ["GIF", "BMP"])
def test_a_huge_header_of_other_formats_is_too_large(kind, encoded, limits):
    data = bytearray(encoded(Image.new("P", (40, 20)), kind))
    if kind == "GIF":
        data[6:10] = struct.pack("<HH", 60_000, 60_000)
    else:
        data[18:26] = struct.pack("<ii", 60_000, 60_000)
    assert code_of(bytes(data), limits) == "too_large"


def test_jpeg_and_webp_headers_over_the_limit_are_too_large(encoded):
    small = PictureLimits(max_pixels=1000, min_side=1)
    for kind in ("JPEG", "WEBP", "TIFF", "AVIF"):
        assert code_of(encoded(Image.new("RGB", (40, 30)), kind), small) == "too_large"


def test_a_two_megabyte_text_chunk_is_too_large(raw_png, limits):
    row = [bytes([1, 2, 3] * 40)] * 20
    for place in ("before", "after"):
        text = {place: [(b"tEXt", b"Comment\0" + b"x" * 2_000_000)]}
        assert code_of(raw_png((40, 20), 8, 2, row, **text), limits) == "too_large"
