import struct
from importlib.util import find_spec

import pytest

from diffprep_resources.errors import SampleReject
from diffprep_resources.pictures.content_type import PILLOW_FORMATS, formats_to_try
from diffprep_resources.pictures.decode import load_upright, probe


def iso_media(major: bytes, *brands: bytes) -> bytes:
    body = b"ftyp" + major + bytes(4) + b"".join(brands)
    return struct.pack(">I", 4 + len(body)) + body + b"\0\0\0\x08free"


@pytest.mark.parametrize(
    ("data", "package"),
    [
        (iso_media(b"heic", b"mif1", b"heic"), "pillow-heif"),
        (iso_media(b"mif1", b"mif1", b"heic", b"miaf"), "pillow-heif"),
        (iso_media(b"heix", b"mif1"), "pillow-heif"),
        (b"\xff\x0a" + bytes(40), "pillow-jxl-plugin"),
        (b"\0\0\0\x0cJXL \r\n\x87\n" + bytes(40), "pillow-jxl-plugin"),
        (b"8BPS\0\1" + bytes(40), "psd-tools"),
        (b"%PDF-1.7 " + bytes(40), "pymupdf"),
    ],
)
def test_a_format_without_a_decoder_names_the_package_that_reads_it(data, package, limits):
    if find_spec(package.replace("-", "_").removesuffix("_plugin")):
        pytest.skip(f"{package} is installed here")
    for read in (probe, lambda d, limits: load_upright(d, limits=limits, background="#ffffff")):
        with pytest.raises(SampleReject, match=package) as caught:
            read(data, limits=limits)
        assert caught.value.code == "unsupported_format"


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
