import zlib

import pytest
from PIL import PngImagePlugin

from diffprep_resources.errors import SampleReject
from diffprep_resources.pictures.png_chunks import MAX_SIDE_DATA_BYTES, read_png_chunks

ROWS = [bytes((1, 2, 3) * 4)] * 3


def test_a_whole_png_says_so_with_depth_and_exif(raw_png):
    facts = read_png_chunks(raw_png((4, 3), 8, 2, ROWS, after=[(b"eXIf", b"MM\0\x2a")]))
    assert (facts.whole, facts.bit_depth, facts.exif) == (True, 8, b"MM\0\x2a")
    assert read_png_chunks(raw_png((4, 3), 4, 0, [b"\0\0"] * 3)).bit_depth == 4


def test_a_png_is_not_whole_when_cut_anywhere(raw_png):
    data = raw_png((4, 3), 8, 2, ROWS)
    assert not any(read_png_chunks(data[:size]).whole for size in range(8, len(data)))


def test_a_flipped_pixel_byte_makes_it_not_whole(raw_png):
    data = bytearray(raw_png((4, 3), 8, 2, ROWS))
    data[data.index(b"IDAT") + 6] ^= 1
    assert not read_png_chunks(bytes(data)).whole


@pytest.mark.parametrize("kind", [b"tEXt", b"iTXt", b"zTXt", b"iCCP", b"eXIf"])
def test_side_data_over_the_limit_is_too_large(kind, raw_png):
    chunk = (kind, b"key\0" + b"x" * MAX_SIDE_DATA_BYTES)
    with pytest.raises(SampleReject, match=f"too_large: the PNG's {kind.decode()} chunk"):
        read_png_chunks(raw_png((4, 3), 8, 2, ROWS, before=[chunk]))


@pytest.mark.parametrize(
    ("kind", "head"),
    [(b"zTXt", b"key\0\0"), (b"iCCP", b"key\0\0"), (b"iTXt", b"key\0\1\0en\0key\0")],
)
@pytest.mark.parametrize("place", ["before", "after"])
def test_a_small_chunk_that_inflates_beyond_the_limit_is_too_large(kind, head, place, raw_png):
    def with_text(size: int) -> bytes:
        return raw_png((4, 3), 8, 2, ROWS, **{place: [(kind, head + zlib.compress(bytes(size)))]})

    with pytest.raises(SampleReject, match="inflates to more than"):
        read_png_chunks(with_text(MAX_SIDE_DATA_BYTES + 1))
    assert read_png_chunks(with_text(MAX_SIDE_DATA_BYTES)).whole


def test_a_chunk_header_that_lies_about_two_gigabytes_costs_nothing(raw_png):
    data = bytearray(raw_png((4, 3), 8, 2, ROWS, before=[(b"tEXt", b"a\0b")]))
    at = data.index(b"tEXt") - 4
    data[at : at + 4] = b"\x7f\xff\xff\xff"
    with pytest.raises(SampleReject, match="too_large"):
        read_png_chunks(bytes(data))


def test_the_limit_is_the_one_that_pillow_keeps():
    assert MAX_SIDE_DATA_BYTES == PngImagePlugin.MAX_TEXT_CHUNK
