import io

import pytest
from PIL import Image

from diffprep_resources.pictures.structure import wholeness


def state_of(data: bytes, opened: bytes | None = None) -> str:
    with Image.open(io.BytesIO(opened or data)) as image:
        return wholeness(data, image=image)


@pytest.mark.parametrize("kind", ["JPEG", "WEBP", "GIF", "TIFF", "AVIF"])
def test_a_whole_file_is_seen_without_decoding(kind, encoded, noise):
    assert state_of(encoded(noise(60, 40), kind)) == "whole"


@pytest.mark.parametrize("kind", ["GIF", "TIFF", "AVIF"])
def test_a_cut_file_is_unsure(kind, encoded, noise):
    data = encoded(noise(60, 40), kind)
    assert state_of(data[:-30], data) == "unsure"


def test_a_jpeg_without_its_end_is_cut(encoded, noise):
    data = encoded(noise(60, 40), "JPEG")
    assert state_of(data[:-1]) == "cut"
    assert state_of(data[:-1] + bytes(500)) == "cut"
    assert state_of(data + bytes(500)) == "whole"


def test_fill_bytes_between_jpeg_segments_are_allowed(encoded, noise):
    data = encoded(noise(60, 40), "JPEG")
    at = data.index(b"\xff\xdb")
    assert state_of(data[:at] + b"\xff\xff" + data[at:]) == "whole"


def test_formats_without_a_check_are_unsure(encoded, noise):
    assert state_of(encoded(noise(60, 40), "BMP")) == "unsure"
