"""Pictures of every kind, in one folder that is looked through once: each line of the known cases.

What is kept is read back as it will be encoded. `test_mixed_folder.py` takes bad pictures through
`diffprep run`.
"""

import io
import os
import struct
import tempfile
import zlib
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageFile, ImageOps, features

from diffprep_assets.bucket.table import note_counts
from diffprep_resources.errors import SourceAccessError
from tests.cases.looking import LookedThrough, looked_through, put
from tests.cases.picture_files import (
    adobe_rgb,
    chunk,
    dull_inks,
    encoded,
    flat,
    grey_tiff,
    noise,
    png,
    srgb_of_adobe,
    srgb_of_grey,
    srgb_profile,
    turned,
)

ORIENTATIONS = range(1, 9)
WHITE, NIGHT = (255, 255, 255), "#102030"
FIRST, SECOND = noise(48, 32), noise(48, 32, seed=1)
FRAMES = {"save_all": True, "append_images": [SECOND]}
JPEG = encoded(noise(90, 60), "JPEG")
LONG = "l" * 240
ODD = b"caf\xe9 \xff.jpg"

SUFFIXES = {
    "suffix/IMG_1.JPG": JPEG,
    "suffix/a.jpeg": JPEG,
    "suffix/b.PNG": encoded(noise(40, 30), "PNG"),
    "suffix/c.WebP": encoded(noise(40, 30), "WEBP"),
    "suffix/d.Tif": encoded(noise(40, 30), "TIFF"),
    "suffix/e.gif": encoded(noise(40, 30), "GIF"),
    "suffix/f.BMP": encoded(noise(40, 30), "BMP"),
    "suffix/g.avif": encoded(noise(40, 30), "AVIF"),
}
NO_PICTURES = {
    "suffix/notes.jpg.txt": "no picture",
    "suffix/table.csv": "a,b",
    "suffix/clip.mp4": b"a video",
    "suffix/README": "no suffix",
    "suffix/jpg": JPEG,
    "folder.jpg/notes.md": "a folder named like a picture",
}
NAMES = {
    "name/aaa.bbb.jpg": "dots",
    "name/aaa.ccc.jpg": "other dots",
    "name/x (1).jpg": "parentheses",
    "name/\N{CAT FACE} \u732b.jpg": "a cat",
    "name/new\nline.jpg": "a newline",
    "name/tab\tand 'quotes\".jpg": "marks",
    "name/..two.dots.jpg": "hidden",
    "name/ends..jpg": "two dots",
    "name/-rf.jpg": "a dash",
    "name/[a]*?.jpg": "wildcards",
    "name/back\\slash.jpg": "a backslash",
    "name/x\\xe9.jpg": "reads like an escape",
    f"name/{LONG}.jpg": "long",
    "name/deep/er/still/a.jpg": "deep",
}
DISGUISED = {
    "as/webp.png": encoded(noise(40, 30), "WEBP", lossless=True),
    "as/png.jpg": encoded(noise(40, 30), "PNG"),
    "as/jpeg.png": JPEG,
    "as/gif.jpg": encoded(noise(40, 30), "GIF"),
    "as/tiff.webp": encoded(noise(40, 30), "TIFF"),
    "as/bmp.heic": encoded(noise(40, 30), "BMP"),
}
SIXTEEN = {
    "deep/rgb.png": png((20, 20), 16, 2, struct.pack(">HHH", 65535, 32768, 1000) * 20),
    "deep/grey.png": encoded(Image.fromarray(np.full((20, 20), 32768, np.uint16)), "PNG"),
    "deep/grey.tif": encoded(Image.fromarray(np.full((20, 20), 32768, np.uint16)), "TIFF"),
    "deep/inverse.tif": grey_tiff([32767] * 20, bits=16, white_is_zero=True),
    "deep/inverse8.tif": grey_tiff([127] * 20, bits=8, white_is_zero=True),
    "deep/grey_alpha.png": png((20, 20), 16, 4, struct.pack(">HH", 32768, 65535) * 20),
    "deep/rgba.png": png((20, 20), 16, 6, struct.pack(">HHHH", 65535, 32768, 1000, 65535) * 20),
    "deep/pnm.png": b"P6 20 20 65535\n" + struct.pack(">HHH", 65535, 32768, 1000) * 400,
}
CLEAR = {
    "alpha/rgba.png": encoded(flat((200, 10, 90, 0), mode="RGBA"), "PNG"),
    "alpha/la.png": encoded(flat((200, 0), mode="LA"), "PNG"),
    "alpha/palette.png": png(
        (20, 20), 8, 3, bytes(20), before=[(b"PLTE", b"\xc8\x0a\x5a"), (b"tRNS", b"\0")]
    ),
    "alpha/one_bit_palette.png": png(
        (24, 20), 1, 3, bytes(3), before=[(b"PLTE", b"\xc8\x0a\x5a\1\2\3"), (b"tRNS", b"\0")]
    ),
    "alpha/grey16_key.png": png(
        (20, 20), 16, 0, struct.pack(">H", 1000) * 20, before=[(b"tRNS", struct.pack(">H", 1000))]
    ),
    "alpha/one_bit_key.png": png((24, 20), 1, 0, bytes(3), before=[(b"tRNS", b"\0\0")]),
    "alpha/rgba16.png": png((20, 20), 16, 6, struct.pack(">HHHH", 9000, 9, 9, 0) * 20),
    "alpha/la16.png": png((20, 20), 16, 4, struct.pack(">HH", 9000, 0) * 20),
    "alpha/rgba.webp": encoded(
        flat((200, 10, 90, 0), mode="RGBA"), "WEBP", lossless=True, exact=True
    ),
    "alpha/clear.gif": encoded(flat(1, mode="P"), "GIF", transparency=1),
    "alpha/rgba.tif": encoded(flat((200, 10, 90, 0), mode="RGBA"), "TIFF"),
}
COLOURS = {
    "colour/half.png": encoded(flat((0, 100, 200, 51), mode="RGBA"), "PNG"),
    "colour/one_bit.png": encoded(flat(1, mode="1"), "PNG"),
    "colour/palette.png": encoded(flat((10, 200, 30)).convert("P"), "PNG"),
    "colour/cmyk.jpg": encoded(flat((255, 0, 0, 0), mode="CMYK"), "JPEG", quality=100),
    "colour/cmyk_inks.jpg": encoded(
        flat((0, 255, 0, 0), mode="CMYK"), "JPEG", quality=100, icc_profile=dull_inks()
    ),
    "colour/cmyk_inks.tif": encoded(
        flat((0, 255, 0, 0), mode="CMYK"), "TIFF", icc_profile=dull_inks()
    ),
    "colour/lab.tif": encoded(flat((153, 128, 128), mode="LAB"), "TIFF"),
    "colour/ycbcr.tif": encoded(flat((200, 10, 90)).convert("YCbCr"), "TIFF"),
    "colour/srgb.png": encoded(FIRST, "PNG", icc_profile=srgb_profile()),
    "colour/nonsense_profile.png": encoded(flat((10, 200, 30)), "PNG", icc_profile=b"nonsense"),
    **{
        f"colour/wide.{kind.lower()}": encoded(
            flat((100, 150, 60)), kind, quality=100, icc_profile=adobe_rgb()
        )
        for kind in ("JPEG", "PNG", "WEBP", "TIFF")
    },
}
MANY_FRAMES = {
    "frames/moving.gif": encoded(FIRST.convert("P"), "GIF", save_all=True, append_images=[SECOND]),
    "frames/moving.webp": encoded(FIRST, "WEBP", lossless=True, **FRAMES),
    "frames/moving.png": encoded(FIRST, "PNG", **FRAMES),
    "frames/pages.tif": encoded(FIRST, "TIFF", **FRAMES),
    "frames/phone.jpg": encoded(FIRST, "MPO", **FRAMES),
}
WHOLE = {
    "whole/progressive.jpg": encoded(noise(90, 60), "JPEG", progressive=True),
    "whole/trailer.jpg": JPEG + b"\0trailing garbage" * 200,
    "whole/thumbnail.jpg": encoded(
        noise(90, 60),
        "JPEG",
        exif=b"Exif\0\0MM\0\x2a\0\0\0\x08\0\0\0\0\0\0" + encoded(noise(16, 16), "JPEG"),
    ),
    "whole/trailer.png": encoded(noise(90, 60), "PNG") + b"trailing garbage",
    "whole/interlaced.gif": encoded(noise(90, 60), "GIF", interlace=True),
    "whole/broken_exif.jpg": encoded(noise(90, 60), "JPEG", exif=b"Exif\0\0no tiff header"),
}
UNREADABLE = {
    **{
        f"cut/{name}": data[: int(len(data) * kept)]
        for name, data, kept in (
            ("half.jpg", JPEG, 0.5),
            ("end.jpg", JPEG, 0.97),
            ("progressive.jpg", encoded(noise(90, 60), "JPEG", progressive=True), 0.6),
            ("half.png", encoded(noise(90, 60), "PNG"), 0.5),
            ("half.webp", encoded(noise(90, 60), "WEBP"), 0.5),
            ("lossless.webp", encoded(noise(90, 60), "WEBP", lossless=True), 0.9),
            ("half.gif", encoded(noise(90, 60), "GIF"), 0.5),
            ("half.tif", encoded(noise(90, 60), "TIFF"), 0.5),
            ("half.bmp", encoded(noise(90, 60), "BMP"), 0.5),
            ("half.avif", encoded(noise(90, 60), "AVIF"), 0.5),
        )
    },
    "cut/zeros.jpg": JPEG[: len(JPEG) // 2] + bytes(len(JPEG) // 2),
    "none/empty.jpg": b"",
    "none/page.jpg": b"<!DOCTYPE html><html><body>404 Not Found</body></html>",
    "none/drawing.jpg": b'<svg xmlns="http://www.w3.org/2000/svg" width="90" height="60"/>',
    "none/error.jpg": b'{"error": "not found"}',
    "none/text.png": b"just some text",
    "none/zip.png": b"PK\3\4" + bytes(60),
    "none/only_magic.png": b"\x89PNG\r\n\x1a\n",
    "none/only_magic.jpg": b"\xff\xd8\xff",
    "none/no_frame.gif": b"GIF89a" + struct.pack("<HHBBB", 40, 40, 0, 0, 0) + b";",
    "none/pointer.jpg": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n",
    "none/zeros.jpg": bytes(4000),
}
SMALL = {
    "small/dot.png": encoded(noise(1, 1), "PNG"),
    "small/line.png": encoded(noise(1, 3000), "PNG"),
    "small/bar.png": encoded(noise(2000, 10), "PNG"),
}
TALL = {
    "small/strip.png": encoded(noise(16, 3000), "PNG"),
    "small/ribbon.png": encoded(noise(3000, 16), "PNG"),
}
TEXT = b"x" * (2 << 20)
LARGE = {
    "large/header.png": png((20_000, 10_000), 8, 2, bytes(60)),
    "large/bomb.png": png((60_000, 60_000), 8, 2, bytes(60)),
    "large/header.gif": b"GIF89a"
    + struct.pack("<HHBBBcHHHHB", 65_535, 65_535, 0, 0, 0, b",", 0, 0, 65_535, 65_535, 0)
    + b"\x08\0;",
    "large/header.bmp": b"BM"
    + struct.pack("<IHHIIiiHHIIiiII", 99, 0, 0, 54, 40, 60_000, 60_000, 1, 24, 0, 0, 0, 0, 0, 0),
    "large/text.png": png((20, 20), 8, 2, bytes(60), before=[(b"tEXt", b"k\0" + TEXT)]),
    "large/international.png": png(
        (20, 20), 8, 2, bytes(60), before=[(b"iTXt", b"k\0\0\0\0\0" + TEXT)]
    ),
    "large/bomb_text.png": png(
        (20, 20), 8, 2, bytes(60), after=[(b"zTXt", b"k\0\0" + zlib.compress(bytes(9 << 20)))]
    ),
    "large/bomb_international.png": png(
        (20, 20),
        8,
        2,
        bytes(60),
        before=[(b"iTXt", b"k\0\1\0\0\0" + zlib.compress(bytes(9 << 20)))],
    ),
    "large/many_texts.png": png(
        (20, 20),
        8,
        2,
        bytes(60),
        before=[(b"zTXt", b"k\0\0" + zlib.compress(bytes(1 << 20)))] * 65,
    ),
}
UNSUPPORTED = {
    "other/photo.heic": (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(64), "pillow-heif"),
    "other/generic.heic": (
        b"\0\0\0\x1cftypmif1\0\0\0\0mif1heicmiaf" + bytes(64),
        "pillow-heif",
    ),
    "other/ten_bit.heif": (b"\0\0\0\x18ftypheix\0\0\0\0mif1heix" + bytes(64), "pillow-heif"),
    "other/photo.jxl": (b"\0\0\0\x0cJXL \r\n\x87\n" + bytes(64), "pillow-jxl-plugin"),
    "other/stream.jxl": (b"\xff\x0a" + bytes(64), "pillow-jxl-plugin"),
    "other/page.jpg": (b"%PDF-1.7 " + bytes(64), "pymupdf"),
    "other/film.jpg": (b"\x1a\x45\xdf\xa3" + bytes(64), "ffmpeg"),
    "other/layers.jpg": (b"8BPS\0\1" + bytes(64), "psd-tools"),
    "other/clip.jpg": (b"\0\0\0\x18ftypisom\0\0\0\0isommp41" + bytes(64), "'isom'"),
    "other/float.tif": (encoded(flat(0.5, mode="F"), "TIFF"), "8 or 16 bit"),
}
KINDS = {"JPEG": "jpg", "PNG": "png", "WEBP": "webp", "TIFF": "tif", "AVIF": "avif"}


def of_orientation(kind: str, value: int) -> bytes:
    """40x20 as stored, black at the top left."""
    image = flat("white", size=(40, 20))
    image.paste("black", (0, 0, 16, 8))
    lossless = {"lossless": True} if kind == "WEBP" else {}
    return encoded(image, kind, exif=turned(value), quality=95, **lossless)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> LookedThrough:
    """All the pictures of this file, looked through once for squares of 64 pixels."""
    folder = tmp_path_factory.mktemp("pictures")
    pictures: dict[str, bytes] = {}
    for group in (SUFFIXES, DISGUISED, SIXTEEN, CLEAR, COLOURS, MANY_FRAMES, WHOLE):
        pictures |= group
    for group in (UNREADABLE, SMALL, TALL, LARGE):
        pictures |= group
    pictures |= {name: data for name, (data, _) in UNSUPPORTED.items()}
    for kind, suffix in KINDS.items():
        pictures |= {f"turned/{n}.{suffix}": of_orientation(kind, n) for n in ORIENTATIONS}
    pictures |= {"exact/square.png": encoded(noise(64, 64), "PNG")}
    pictures |= {"turned/png_end.png": png_turned_at_its_end()}
    root = folder / "pictures"
    put(root, pictures)
    put(root, {f"{name.rpartition('.')[0]}.txt": f"caption of {name}" for name in pictures})
    put(root, {name: JPEG for name in NAMES})
    put(root, {f"{name.removesuffix('.jpg')}.txt": text for name, text in NAMES.items()})
    put(root, NO_PICTURES)
    put(root, {"pair/a.jpg": JPEG, "pair/a.png": encoded(FIRST, "PNG"), "pair/a.txt": "shared"})
    odd = os.fsencode(root) + b"/name/" + ODD
    for path, data in ((odd, JPEG), (odd.replace(b".jpg", b".txt"), b"odd bytes")):
        with open(path, "wb") as file:
            file.write(data)
    write_links(root)
    return looked_through(folder)


def png_turned_at_its_end() -> bytes:
    exif = turned(6).tobytes().removeprefix(b"Exif\0\0")
    return png((40, 20), 8, 2, bytes(120), after=[(b"eXIf", exif)])


def write_links(root: Path) -> None:
    """A loop, a picture outside of the folder, and one that is gone."""
    outside = root.parent / "outside"
    put(outside, {"far.jpg": JPEG, "far.txt": "far away"})
    (root / "link").mkdir()
    os.symlink("..", root / "link" / "loop")
    os.symlink("itself.jpg", root / "link" / "itself.jpg")
    os.symlink(outside / "far.jpg", root / "link" / "far.jpg")
    os.symlink(outside / "far.txt", root / "link" / "far.txt")
    os.symlink("/nowhere/gone.jpg", root / "link" / "gone.jpg")
    put(root, {"link/gone.txt": "a caption"})
    os.mkfifo(root / "link" / "pipe.jpg")


def test_a_jpeg_of_exif_orientation_6_stored_as_40x20_is_20x40_everywhere(
    found: LookedThrough,
) -> None:
    key = "turned/6.jpg"
    assert found.size(key) == (20, 40)
    row = found.rows[key]
    assert (row.crop_width, row.crop_height) == (20, 40)
    upright = found.upright(key)
    assert upright.size == (20, 40)
    # Nothing is left that would turn it a second time when it is saved.
    again = Image.open(io.BytesIO(encoded(upright, "PNG")))
    assert ImageOps.exif_transpose(again).size == (20, 40)
    assert dict(again.getexif()) == {}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", ORIENTATIONS)
def test_every_orientation_of_every_format_shows_the_right_corner(
    found: LookedThrough, kind: str, value: int
) -> None:
    key = f"turned/{value}.{KINDS[kind]}"
    assert found.size(key) == ((20, 40) if value > 4 else (40, 20))
    pixels = np.asarray(found.upright(key).convert("L"))
    dark = [bool(pixels[y, x] < 128) for y in (2, -3) for x in (2, -3)]
    where = {1: 0, 2: 1, 3: 3, 4: 2, 5: 0, 6: 1, 7: 3, 8: 2}[value]
    assert dark == [corner == where for corner in range(4)]


def test_orientation_in_a_png_behind_its_pixels_counts(found: LookedThrough) -> None:
    assert found.size("turned/png_end.png") == found.upright("turned/png_end.png").size == (20, 40)


def test_suffixes_in_any_case_are_found_and_the_others_counted(found: LookedThrough) -> None:
    assert {key for key in found.kept if key.startswith("suffix/")} == set(SUFFIXES)
    counts = {".csv": 1, ".md": 1, ".mp4": 1, "no suffix": 2, ".txt without a picture": 1}
    links = {"linked folder listed already": 1, "not a regular file": 1}
    assert dict(found.other_files) == {**counts, **links}


def test_a_jpg_and_a_png_of_one_stem_are_two_samples_that_share_the_caption(
    found: LookedThrough,
) -> None:
    pair = [found.rows[key] for key in ("pair/a.jpg", "pair/a.png")]
    assert [row.caption for row in pair] == ["shared", "shared"]
    assert pair[0].image_digest != pair[1].image_digest


def test_dotted_spaced_and_foreign_names_keep_their_own_caption(found: LookedThrough) -> None:
    expected = {key: text for key, text in NAMES.items() if text != "hidden"}
    assert {k: c for k, c in found.captions.items() if k.startswith("name/")} == {
        **{key.replace("\\x", "\\x5cx"): text for key, text in expected.items()},
        "name/caf\\xe9 \\xff.jpg": "odd bytes",
    }


def test_links_are_followed_and_a_loop_ends(found: LookedThrough) -> None:
    assert {key: row.code for key, row in found.rows.items() if key.startswith("link/")} == {
        "link/far.jpg": None,
        "link/gone.jpg": "source_missing",
        "link/itself.jpg": "source_missing",
    }
    assert found.captions["link/far.jpg"] == "far away"


def test_content_of_another_type_than_the_suffix_is_decoded_by_content(
    found: LookedThrough,
) -> None:
    for key, data in DISGUISED.items():
        plain = Image.open(io.BytesIO(data)).convert("RGB")
        assert np.array_equal(np.asarray(found.upright(key)), np.asarray(plain)), key


def test_sixteen_bits_are_scaled_to_eight_and_not_clipped(found: LookedThrough) -> None:
    for key in SIXTEEN:
        coloured = key.split("/")[1] in ("rgb.png", "rgba.png", "pnm.png")
        expected = np.array((255, 128, 4) if coloured else (128, 128, 128))
        assert np.abs(np.array(found.pixel(key)) - expected).max() <= 1, key


def test_what_is_clear_shows_the_background_and_no_junk_under_it(found: LookedThrough) -> None:
    for key in CLEAR:
        assert (found.pixel(key), found.pixel(key, NIGHT)) == (WHITE, (16, 32, 48)), key
    assert found.pixel("colour/half.png", "#ff0000") == (204, 20, 40)


def test_cmyk_and_wide_gamut_go_through_their_profile_to_srgb(found: LookedThrough) -> None:
    wide = srgb_of_adobe((100, 150, 60))
    assert np.abs(wide - (100, 150, 60)).max() > 20
    expected: dict[str, object] = {
        "colour/cmyk_inks.jpg": srgb_of_grey(40),
        "colour/cmyk_inks.tif": srgb_of_grey(40),
        "colour/cmyk.jpg": (0, 255, 255),
        "colour/lab.tif": srgb_of_grey(60),
        "colour/ycbcr.tif": (200, 10, 90),
        "colour/one_bit.png": WHITE,
        "colour/palette.png": flat((10, 200, 30)).convert("P").convert("RGB").getpixel((0, 0)),
        "colour/nonsense_profile.png": (10, 200, 30),
        **{f"colour/wide.{kind}": wide for kind in ("jpeg", "png", "webp", "tiff")},
    }
    for key, color in expected.items():
        if key in found.rows:
            assert np.abs(np.array(found.pixel(key)) - np.array(color)).max() < 4, key
    assert np.array_equal(np.asarray(found.upright("colour/srgb.png")), np.asarray(FIRST))


def test_a_colour_that_cannot_be_converted_by_its_profile_is_noted(found: LookedThrough) -> None:
    notes = found.rows["colour/nonsense_profile.png"].notes
    assert notes == ("colour profile cannot be used; taken as sRGB",)
    assert "without a colour profile" in found.rows["colour/cmyk.jpg"].notes[0]


@pytest.mark.parametrize("key", UNREADABLE)
def test_what_is_cut_empty_or_no_picture_is_unreadable_image(
    found: LookedThrough, key: str
) -> None:
    assert found.codes[key] == "unreadable_image"


def test_a_pointer_that_git_lfs_left_says_how_to_get_the_file(found: LookedThrough) -> None:
    assert "git lfs pull" in (found.rows["none/pointer.jpg"].message or "")


def test_neighbours_of_bad_pictures_and_whole_ones_with_oddities_are_unharmed(
    found: LookedThrough,
) -> None:
    for key, data in WHOLE.items():
        plain = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
        assert np.array_equal(np.asarray(found.upright(key)), plain), key
    assert ImageFile.LOAD_TRUNCATED_IMAGES is False


def test_too_thin_and_too_small_are_rejects_and_no_side_is_ever_0(
    found: LookedThrough, tmp_path: Path
) -> None:
    assert {key: found.codes.get(key) for key in SMALL} == dict.fromkeys(SMALL, "too_small")
    pictures = SMALL | TALL | {"small/fine.png": encoded(noise(300, 250), "PNG")}
    put(tmp_path / "pictures", pictures | {f"{key[:-4]}.txt": "a" for key in pictures})
    buckets = {"image_size": None, "buckets": {"tiers": [256]}, "min_side": 1}
    sorted_out = looked_through(tmp_path, "buckets", image=buckets)
    assert sorted_out.codes == {
        "small/dot.png": "too_small",
        **dict.fromkeys(("small/line.png", "small/bar.png", *TALL), "aspect_out_of_range"),
    }
    variable = {"image_size": None, "variable_size": True, "max_size": 64, "min_side": 1}
    for rows in (
        looked_through(tmp_path, "variable", image=variable).kept,
        looked_through(tmp_path, "squares", image={"min_side": 1}).kept,
        looked_through(tmp_path, "crop", image={"min_side": 1, "center_crop": True}).kept,
    ):
        assert len(rows) == len(pictures)
        sides = [(row.width, row.height, row.crop_width, row.crop_height) for row in rows.values()]
        assert min(side or 0 for row in sides for side in row) >= 1
        assert {(side or 0) % 16 for row in sides for side in row[:2]} == {0}


def test_a_header_of_20000x10000_and_a_text_of_2_mb_are_too_large_before_decoding(
    found: LookedThrough,
) -> None:
    assert {key: found.codes.get(key) for key in LARGE} == dict.fromkeys(LARGE, "too_large")
    assert "20000x10000" in (found.rows["large/header.png"].message or "")


def test_the_recipe_may_allow_more_pixels_than_pillow_would(tmp_path: Path) -> None:
    put(tmp_path / "pictures", {"a.txt": "a", "a.png": png((15_000, 12_000), 1, 0, bytes(1875))})
    assert looked_through(tmp_path).codes == {"a.png": "too_large"}
    allowed = looked_through(tmp_path, image={"max_pixels": 200_000_000})
    # The file holds 64 of its 12,000 rows.
    assert allowed.codes in ({}, {"a.png": "unreadable_image"})


def test_of_an_animation_or_several_pages_the_first_is_taken_and_that_is_noted(
    found: LookedThrough,
) -> None:
    for key in MANY_FRAMES:
        assert found.rows[key].notes == ("first of 2 frames taken",), key
    for key in ("frames/moving.webp", "frames/moving.png", "frames/pages.tif"):
        assert np.array_equal(np.asarray(found.upright(key)), np.asarray(FIRST)), key
    layout = found.dataset.layout
    assert note_counts([layout.bucket("p00000")])["first of N frames taken"] == len(MANY_FRAMES)


@pytest.mark.parametrize("key", UNSUPPORTED)
def test_a_format_without_a_decoder_is_unsupported_and_names_the_package(
    found: LookedThrough, key: str
) -> None:
    package = UNSUPPORTED[key][1]
    if find_spec(package.replace("-", "_").removesuffix("_plugin")):
        pytest.skip(f"{package} is installed here")
    assert found.codes[key] == "unsupported_format"
    assert package in (found.rows[key].message or "")


def test_avif_without_a_decoder_is_unsupported_and_names_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "pictures", {"a.avif": SUFFIXES["suffix/g.avif"], "a.txt": "a"})
    check = features.check
    monkeypatch.setattr(features, "check", lambda name: name != "avif" and check(name))
    without = looked_through(tmp_path)
    assert without.codes == {"a.avif": "unsupported_format"}
    assert "pillow" in (without.rows["a.avif"].message or "")


def test_a_picture_exactly_at_its_size_is_neither_cropped_nor_resampled(
    found: LookedThrough, tmp_path: Path
) -> None:
    assert np.array_equal(found.encoded("exact/square.png"), np.asarray(noise(64, 64)))
    put(tmp_path / "pictures", {"a.png": encoded(noise(192, 320), "PNG"), "a.txt": "a"})
    image = {"image_size": None, "buckets": {"tiers": [256]}}
    bucketed = looked_through(tmp_path, image=image)
    row = bucketed.rows["a.png"]
    assert (row.tier, row.width, row.height) == (256, 192, 320)
    assert np.array_equal(bucketed.encoded("a.png"), np.asarray(noise(192, 320)))


def test_a_picture_edited_in_place_at_the_same_size_is_read_again_and_no_other(
    tmp_path: Path,
) -> None:
    """What follows from that is in tests/pipeline/test_reruns.py: its shard alone is rewritten."""
    pictures = {f"{n}.bmp": encoded(noise(40, 30, seed=n), "BMP") for n in range(5)}
    put(tmp_path / "pictures", pictures | {f"{n}.txt": f"picture {n}" for n in range(5)})
    before = looked_through(tmp_path)
    edited = tmp_path / "pictures" / "3.bmp"
    times = edited.stat()
    edited.write_bytes(encoded(noise(40, 30, seed=9), "BMP"))
    os.utime(edited, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert edited.stat().st_size == times.st_size
    after = looked_through(tmp_path)
    assert (before.num_read, after.num_read) == (5, 1)
    changed = [key for key, row in after.rows.items() if row != before.rows[key]]
    assert changed == ["3.bmp"]


def test_a_file_that_may_not_be_read_is_a_reject_that_may_pass() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        put(folder / "pictures", {"a.jpg": JPEG, "a.txt": "a", "b.jpg": JPEG, "b.txt": "b"})
        os.chmod(folder / "pictures" / "a.jpg", 0)
        found = looked_through_by_nobody(folder)
    assert (found.codes, set(found.kept)) == ({"a.jpg": "unreadable_file"}, {"b.jpg"})
    assert "Permission denied" in (found.rows["a.jpg"].message or "")
    assert found.rows["a.jpg"].transient


def test_a_folder_that_may_not_be_listed_stops_before_any_work_and_is_named() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        put(folder / "pictures", {"a.jpg": JPEG, "a.txt": "a", "closed/b.jpg": JPEG})
        os.chmod(folder / "pictures" / "closed", 0)
        with pytest.raises(SourceAccessError, match=r"pictures/closed cannot be listed"):
            looked_through_by_nobody(folder)
        assert not (folder / "work").exists()


def looked_through_by_nobody(folder: Path) -> LookedThrough:
    """By somebody who is not root, since no mode stops root."""
    if os.geteuid() != 0:
        return looked_through(folder)
    for path in (folder, *folder.rglob("*")):
        os.chown(path, 65_534, 65_534)
    os.seteuid(65_534)
    try:
        return looked_through(folder)
    finally:
        os.seteuid(0)


def test_every_chunk_written_by_hand_here_is_what_pillow_reads() -> None:
    """The PNGs above are true ones, so that their rejects are for the reason named."""
    plain = Image.open(io.BytesIO(png((20, 20), 8, 2, bytes([9, 8, 7] * 20))))
    assert plain.getpixel((19, 19)) == (9, 8, 7)
    assert chunk(b"IEND", b"") == b"\0\0\0\0IEND\xaeB`\x82"
