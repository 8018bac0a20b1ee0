import io
import struct
import threading
import warnings
from collections.abc import Callable

import numpy as np
import pytest
from PIL import Image, ImageCms, ImageFile

from diffprep_resources.errors import SampleReject
from diffprep_resources.pictures.decode import PictureLimits, load_upright, probe

WHITE = "#ffffff"
ORIENTATION = 0x0112
UPRIGHT = {
    1: lambda stored: stored,
    2: lambda stored: stored[:, ::-1],
    3: lambda stored: stored[::-1, ::-1],
    4: lambda stored: stored[::-1],
    5: lambda stored: stored.transpose(1, 0, 2),
    6: lambda stored: np.rot90(stored, k=-1),
    7: lambda stored: stored[::-1, ::-1].transpose(1, 0, 2),
    8: lambda stored: np.rot90(stored, k=1),
}


def exif_orientation(value: int) -> Image.Exif:
    exif = Image.Exif()
    exif[ORIENTATION] = value
    return exif


def code_of(data: bytes, limits: PictureLimits) -> str:
    """The one code that both ways of reading give."""
    codes = set()
    for read in (probe, lambda d, limits: load_upright(d, limits=limits, background=WHITE)):
        with pytest.raises(SampleReject) as caught:
            read(data, limits=limits)
        codes.add(caught.value.code)
    (code,) = codes
    return code


@pytest.mark.parametrize("kind", ["PNG", "WEBP", "TIFF"])
@pytest.mark.parametrize("orientation", UPRIGHT)
def test_every_exif_orientation_is_made_upright(kind, orientation, encoded, noise, limits):
    stored = noise(40, 20)
    options = {"lossless": True} if kind == "WEBP" else {}
    data = encoded(stored, kind, exif=exif_orientation(orientation), **options)
    expected = UPRIGHT[orientation](stored)
    info = probe(data, limits=limits)
    pixels = np.asarray(load_upright(data, limits=limits, background=WHITE))
    assert (info.height, info.width) == expected.shape[:2]
    assert np.array_equal(pixels, expected)


def test_png_exif_behind_the_pixels_counts(raw_png, limits):
    exif = exif_orientation(6).tobytes().removeprefix(b"Exif\0\0")
    rows = [bytes([255, 0, 0] * 2), bytes([0, 0, 255] * 2), bytes([0, 255, 0] * 2)]
    data = raw_png((2, 3), 8, 2, rows, after=[(b"eXIf", exif)])
    info = probe(data, limits=limits)
    assert (info.width, info.height) == (3, 2)
    upright = load_upright(data, limits=limits, background=WHITE)
    assert [upright.getpixel((x, 0)) for x in range(3)] == [(0, 255, 0), (0, 0, 255), (255, 0, 0)]


def test_tiff_orientation_given_in_xmp_only_is_followed(encoded, noise, limits):
    xmp = b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><a tiff:Orientation="6"/></x:xmpmeta>'
    data = encoded(noise(40, 20), "TIFF", tiffinfo={700: xmp})
    info = probe(data, limits=limits)
    assert load_upright(data, limits=limits, background=WHITE).size == (info.width, info.height)
    assert (info.width, info.height) == (20, 40)


def test_nothing_that_would_turn_or_convert_it_again_stays_with_the_pixels(encoded, noise, limits):
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    for kind in ("JPEG", "PNG", "TIFF", "WEBP"):
        data = encoded(noise(40, 20), kind, exif=exif_orientation(1), icc_profile=profile)
        upright = load_upright(data, limits=limits, background=WHITE)
        assert (type(upright), upright.info, dict(upright.getexif())) == (Image.Image, {}, {})


@pytest.mark.parametrize("orientation", [0, 9, 4000])
def test_orientation_out_of_range_means_upright(orientation, encoded, noise, limits):
    data = encoded(noise(40, 20), "PNG", exif=exif_orientation(orientation))
    assert probe(data, limits=limits).width == 40
    assert load_upright(data, limits=limits, background=WHITE).size == (40, 20)


def test_broken_exif_is_a_note_and_not_a_reject(encoded, noise, limits):
    data = encoded(noise(40, 20), "PNG", exif=b"Exif\0\0MM\0\x2a\xff\xff\xff\xff garbage")
    info = probe(data, limits=limits)
    assert (info.width, info.height) == (40, 20)
    for kind in ("JPEG", "WEBP"):
        data = encoded(noise(40, 20), kind, exif=b"Exif\0\0no tiff header at all")
        info = probe(data, limits=limits)
        assert info.width == 40
        assert load_upright(data, limits=limits, background=WHITE).size == (40, 20)
    assert "EXIF cannot be read" in info.notes[0]


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF", "JPEG2000"])
def test_a_picture_is_read_by_content_whatever_its_name(kind, encoded, noise, limits):
    data = encoded(noise(48, 32), kind)
    info = probe(data, limits=limits)
    upright = load_upright(data, limits=limits, background=WHITE)
    assert (info.format, info.width, info.height, info.num_frames) == (kind, 48, 32, 1)
    assert (upright.size, upright.mode, info.notes) == ((48, 32), "RGB", ())


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("JPEG", {}),
        ("JPEG", {"progressive": True}),
        ("PNG", {}),
        ("WEBP", {}),
        ("WEBP", {"lossless": True}),
        ("GIF", {}),
        ("BMP", {}),
        ("TIFF", {}),
        ("TIFF", {"compression": "tiff_lzw"}),
        ("TIFF", {"compression": "jpeg"}),
        ("AVIF", {}),
        ("JPEG2000", {}),
    ],
)
@pytest.mark.parametrize("kept", [0.02, 0.5, 0.9])
def test_a_truncated_picture_is_unreadable_in_scan_and_decode(
    kind, options, kept, encoded, noise, limits
):
    data = encoded(noise(200, 120), kind, **options)
    assert code_of(data[: int(len(data) * kept)], limits) == "unreadable_image"


def test_a_jpeg_whose_tail_is_zeros_is_unreadable(encoded, noise, limits):
    data = encoded(noise(200, 120), "JPEG")
    assert code_of(data[: len(data) // 2] + bytes(len(data) // 2), limits) == "unreadable_image"


def test_the_end_marker_of_a_thumbnail_does_not_make_a_cut_jpeg_whole(encoded, noise, limits):
    thumbnail = encoded(noise(40, 30), "JPEG")
    data = encoded(
        noise(200, 120), "JPEG", exif=b"Exif\0\0MM\0\x2a\0\0\0\x08\0\0\0\0\0\0" + thumbnail
    )
    assert probe(data, limits=limits).width == 200
    assert code_of(data[: len(data) * 2 // 3], limits) == "unreadable_image"


def test_trailing_bytes_after_a_whole_picture_do_no_harm(encoded, noise, limits):
    for kind in ("JPEG", "PNG", "GIF", "WEBP"):
        data = encoded(noise(60, 40), kind) + b"\0trailer\0" * 9
        assert probe(data, limits=limits).width == 60
        assert load_upright(data, limits=limits, background=WHITE).size == (60, 40)


def test_an_overwritten_png_is_noticed_by_the_scan(encoded, noise, limits):
    data = bytearray(encoded(noise(200, 120)))
    data[len(data) // 2 : len(data) // 2 + 40] = bytes(40)
    assert code_of(bytes(data), limits) == "unreadable_image"


def test_a_healthy_structure_is_not_decoded_by_the_scan(png_chunk, limits):
    header = struct.pack(">IIBBBBB", 40, 20, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", b"no deflate stream"), (b"IEND", b"")]
    data = b"\x89PNG\r\n\x1a\n" + b"".join(png_chunk(*chunk) for chunk in chunks)
    assert probe(data, limits=limits).width == 40
    with pytest.raises(SampleReject, match="unreadable_image"):
        load_upright(data, limits=limits, background=WHITE)


def test_an_animation_gives_its_first_frame_and_a_note(encoded, noise, limits):
    first, second = noise(48, 32), noise(48, 32, seed=1)
    for kind, options in (("GIF", {}), ("WEBP", {"lossless": True}), ("PNG", {}), ("TIFF", {})):
        more = {"save_all": True, "append_images": [Image.fromarray(second)], **options}
        single = encoded(first, kind, **options)
        info = probe(encoded(first, kind, **more), limits=limits)
        pixels = load_upright(encoded(first, kind, **more), limits=limits, background=WHITE)
        assert (info.num_frames, info.notes) == (2, ("first of 2 frames taken",)), kind
        alone = load_upright(single, limits=limits, background=WHITE)
        assert np.array_equal(np.asarray(pixels), np.asarray(alone)), kind


def test_a_jpeg_with_a_second_picture_gives_the_first(encoded, noise, limits):
    second = Image.fromarray(noise(24, 16, seed=1))
    data = encoded(Image.fromarray(noise(48, 32)), "MPO", save_all=True, append_images=[second])
    info = probe(data, limits=limits)
    assert (info.format, info.num_frames, info.width) == ("JPEG", 2, 48)
    assert load_upright(data, limits=limits, background=WHITE).size == (48, 32)


def test_an_animation_cut_behind_its_first_frame_is_kept(encoded, noise, limits):
    frames = {"save_all": True, "append_images": [Image.fromarray(noise(48, 32, seed=1))]}
    data = encoded(noise(48, 32), "GIF", **frames)[:-200]
    assert probe(data, limits=limits).width == 48
    assert load_upright(data, limits=limits, background=WHITE).size == (48, 32)


def test_pillow_warnings_neither_leak_nor_decide(encoded, noise, limits):
    # A cut EXIF directory makes Pillow warn; under -W error that would be an exception.
    data = encoded(noise(40, 20), "JPEG", exif=b"Exif\0\0MM\0\x2a\0\0\0\x08\0\x09\x01\x12\0\x03")
    big = encoded(Image.new("1", (10_000, 9_000)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        before = list(warnings.filters)
        assert probe(data, limits=limits).width == 40
        assert probe(big, limits=limits).width == 10_000
        assert load_upright(data, limits=limits, background=WHITE).size == (40, 20)
        assert list(warnings.filters) == before
        with pytest.warns(UserWarning, match="Corrupt EXIF"):
            Image.open(io.BytesIO(data)).getexif()


def test_truncated_pictures_are_never_filled_up():
    assert ImageFile.LOAD_TRUNCATED_IMAGES is False


def test_many_threads_read_the_same(encoded, noise, limits):
    files = [encoded(noise(64, 48, seed=seed), "JPEG") for seed in range(8)]
    alone = [np.asarray(load_upright(f, limits=limits, background=WHITE)) for f in files]
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(5):
            pixels = load_upright(files[number], limits=limits, background=WHITE)
            if not np.array_equal(np.asarray(pixels), alone[number]):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "TIFF", "BMP", "AVIF"])
def test_mutated_bytes_give_a_picture_or_a_reject_and_one_size(
    kind: str, encoded: Callable[..., bytes], noise: Callable[..., np.ndarray]
):
    limits = PictureLimits(max_pixels=4_000_000, min_side=1)
    options = {} if kind in ("GIF", "BMP") else {"exif": exif_orientation(6)}
    whole = encoded(noise(40, 30), kind, **options)
    rng = np.random.default_rng(7)
    seen = set()
    for _ in range(150):
        data = bytearray(whole)
        for _ in range(int(rng.integers(1, 6))):
            data[int(rng.integers(0, len(data)))] = int(rng.integers(0, 256))
        if rng.random() < 0.2:
            del data[int(rng.integers(0, len(data))) :]
        outcomes: list[object] = []
        for read in ("probe", "load"):
            try:
                if read == "probe":
                    info = probe(bytes(data), limits=limits)
                    outcomes.append((info.width, info.height))
                else:
                    upright = load_upright(bytes(data), limits=limits, background=WHITE)
                    outcomes.append(upright.size)
            except SampleReject as reject:
                outcomes.append(reject.code)
        planned, decoded = outcomes
        assert decoded in (planned, "unreadable_image"), outcomes
        seen.add(type(decoded))
    assert str in seen
