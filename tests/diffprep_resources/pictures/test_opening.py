import pytest
from PIL import Image

from diffprep_resources.errors import SampleReject
from diffprep_resources.pictures.opening import (
    MAX_SIDE,
    PictureLimits,
    open_picture,
    reading_picture,
)


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
