import struct

import pytest

from diffprep_resources.errors import SampleReject
from diffprep_resources.pictures.content_type import PILLOW_FORMATS, formats_to_try
from diffprep_resources.pictures.decode import probe


def iso_media(major: bytes, *brands: bytes) -> bytes:
    body = b"ftyp" + major + bytes(4) + b"".join(brands)
    return struct.pack(">I", 4 + len(body)) + body + b"\0\0\0\x08free"


def test_a_video_is_unsupported_and_its_brand_named(limits):
    with pytest.raises(SampleReject, match="'isom'") as caught:
        probe(iso_media(b"isom", b"mp41"), limits=limits)
    assert caught.value.code == "unsupported_format"


@pytest.mark.parametrize("brands", [(b"avif",), (b"mif1", b"avif"), (b"avis", b"avif")])
def test_avif_is_pillows_own_by_any_of_its_brands(brands):
    assert formats_to_try(iso_media(*brands)) == PILLOW_FORMATS


def test_avif_with_pixels_is_read(encoded, noise, limits):
    assert probe(encoded(noise(40, 20), "AVIF"), limits=limits).format == "AVIF"


@pytest.mark.parametrize("kind", ["EPS", "PCX", "SGI", "TGA", "ICO"])
def test_formats_off_the_list_never_reach_their_plugin(kind, encoded, noise, limits):
    with pytest.raises(SampleReject) as caught:
        probe(encoded(noise(40, 20), kind), limits=limits)
    assert caught.value.code in ("unsupported_format", "unreadable_image")
