"""The bytes of stored pictures: what is kept, what is encoded anew, how near the pixels stay."""

import io

import numpy as np
import pytest
from PIL import Image, ImageCms

from diffprep_resources.errors import SampleReject
from diffprep_resources.pictures.decode import load_upright
from diffprep_resources.pictures.fit import Crop, fit
from diffprep_resources.pictures.opening import PictureLimits
from diffprep_resources.pictures.stored import (
    LONGEST_SIDE,
    Cut,
    ImageFormat,
    StoredForm,
    encoded,
    stored_picture,
    without_metadata,
)

LIMITS = PictureLimits(max_pixels=10_000_000, min_side=4)
SIZE = (96, 64)
JPG, PNG, WEBP = StoredForm("jpg", 95), StoredForm("png", 95), StoredForm("webp", 95)
LOSSLESS = StoredForm("webp", 100)
WHOLE = Cut(Crop(0, 0, *SIZE), *SIZE)


def scene(width: int = SIZE[0], height: int = SIZE[1]) -> Image.Image:
    """Smooth colours with one saturated disc, as photographs are rather than noise."""
    y, x = np.mgrid[:height, :width].astype(float)
    channels = [128 + 90 * np.sin(x / 17 + k) * np.cos(y / (11 + k)) for k in range(3)]
    pixels = np.stack(channels, axis=-1)
    pixels[(x - width / 2) ** 2 + (y - height / 2) ** 2 < (height / 4) ** 2] = (230, 20, 30)
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


def file_of(image: Image.Image, kind: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def stored(data: bytes, *, cut: Cut = WHOLE, form: StoredForm = JPG) -> bytes:
    return stored_picture(data, cut=cut, form=form, limits=LIMITS, background="#ffffff")


def pixels_of(data: bytes) -> np.ndarray:
    image = Image.open(io.BytesIO(data))
    assert image.mode == "RGB"
    return np.asarray(image)


def psnr(one: np.ndarray, other: np.ndarray) -> float:
    error = np.mean((one.astype(float) - other.astype(float)) ** 2)
    return float("inf") if error == 0 else 10 * np.log10(255**2 / error)


def turned() -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = 6
    return exif


def test_a_jpeg_that_is_what_would_be_stored_keeps_its_bytes_but_for_exif_and_comment() -> None:
    exif = Image.Exif()
    exif[0x0110] = "a camera's name"
    srgb = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    plain = file_of(scene(), "JPEG", quality=71, progressive=True, icc_profile=srgb)
    source = file_of(
        scene(), "JPEG", quality=71, progressive=True, icc_profile=srgb, exif=exif, comment=b"hi"
    )
    kept = stored(source)
    assert kept == plain
    assert np.array_equal(pixels_of(kept), pixels_of(source))


def test_what_follows_the_scan_stays_and_a_fill_byte_goes() -> None:
    jpeg = file_of(scene(), "JPEG") + b"behind the end"
    assert without_metadata(jpeg) == jpeg
    assert without_metadata(jpeg[:2] + b"\xff" + jpeg[2:]) == jpeg


@pytest.mark.parametrize(
    "case", ["other size", "crop", "turned", "grey", "cmyk", "profile", "png", "mpo"]
)
def test_every_other_file_is_encoded_anew(case: str) -> None:
    cut, options, kind, image = WHOLE, {}, "JPEG", scene()
    if case == "other size":
        image = scene(192, 128)
        cut = Cut(Crop(0, 0, 192, 128), *SIZE)
    elif case == "crop":
        image, cut = scene(100, 70), Cut(Crop(2, 3, *SIZE), *SIZE)
    elif case == "turned":
        image, options = scene(SIZE[1], SIZE[0]), {"exif": turned()}
    elif case == "grey":
        image = image.convert("L")
    elif case == "cmyk":
        image = image.convert("CMYK")
    elif case == "profile":
        linear = ImageCms.createProfile("sRGB")
        data = bytearray(ImageCms.ImageCmsProfile(linear).tobytes())
        # Red and blue primaries swapped: colours move.
        red, blue = data.find(b"rXYZ"), data.find(b"bXYZ")
        data[red : red + 4], data[blue : blue + 4] = b"bXYZ", b"rXYZ"
        options = {"icc_profile": bytes(data)}
    elif case == "mpo":
        kind, options = "MPO", {"save_all": True, "append_images": [scene()]}
    else:
        kind = "PNG"
    source = file_of(image, kind, **options)
    got = stored(source, cut=cut)
    wanted = fit(
        load_upright(source, limits=LIMITS, background="#ffffff"),
        crop=cut.crop,
        width=cut.width,
        height=cut.height,
    )
    assert got == encoded(wanted, form=JPG)
    image = Image.open(io.BytesIO(got))
    assert image.size == SIZE
    assert not {"exif", "icc_profile", "comment"} & image.info.keys()
    assert psnr(pixels_of(got), wanted) >= 35


@pytest.mark.parametrize("form", [JPG, StoredForm("jpg", 92), PNG, WEBP, LOSSLESS], ids=str)
def test_pixels_stay_within_35_db_at_the_default_qualities(form: StoredForm) -> None:
    source = scene(400, 300)
    cut = Cut(Crop(10, 0, 380, 300), 304, 240)
    got = pixels_of(stored(file_of(source, "PNG"), cut=cut, form=form))
    wanted = fit(source, crop=cut.crop, width=304, height=240)
    assert psnr(got, wanted) >= 35
    if form in (PNG, LOSSLESS):
        assert np.array_equal(got, wanted)


@pytest.mark.parametrize("form", [JPG, PNG, WEBP], ids=str)
def test_equal_pixels_give_equal_bytes_of_the_asked_type(form: StoredForm) -> None:
    source = file_of(scene(), "WEBP", lossless=True)
    first = stored(source, form=form)
    assert first == stored(source, form=form)
    names: dict[ImageFormat, str] = {"jpg": "JPEG", "png": "PNG", "webp": "WEBP"}
    assert Image.open(io.BytesIO(first)).format == names[form.image_format]


def test_noise_at_full_quality_is_stored() -> None:
    noise = np.random.default_rng(0).integers(0, 256, (512, 512, 3), dtype=np.uint8)
    assert pixels_of(encoded(noise, form=StoredForm("jpg", 100))).shape == noise.shape


def test_a_png_loses_text_and_palette_and_no_pixel() -> None:
    source = file_of(scene().quantize(32), "PNG", dpi=(72, 72))
    got = stored(source, form=PNG)
    assert np.array_equal(pixels_of(got), np.asarray(Image.open(io.BytesIO(source)).convert("RGB")))
    assert Image.open(io.BytesIO(got)).info == {}


def test_a_cut_jpeg_of_the_right_size_is_a_reject() -> None:
    jpeg = file_of(scene(), "JPEG", quality=90)
    with pytest.raises(SampleReject) as reject:
        stored(jpeg[: len(jpeg) // 2])
    assert reject.value.code == "unreadable_image"


def test_a_side_beyond_the_format_is_a_reject() -> None:
    wide = np.zeros((1, LONGEST_SIDE["webp"] + 1, 3), np.uint8)
    with pytest.raises(SampleReject, match="sides up to 16383"):
        encoded(wide, form=WEBP)
