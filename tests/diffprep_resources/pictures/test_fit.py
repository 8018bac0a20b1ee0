import numpy as np
import pytest
from PIL import Image

from diffprep_resources.pictures.fit import Crop, fit


def test_a_picture_exactly_at_the_size_is_not_resampled(noise):
    pixels = noise(64, 48)
    fitted = fit(Image.fromarray(pixels), crop=Crop(0, 0, 64, 48), width=64, height=48)
    assert np.array_equal(fitted, pixels)


def test_a_crop_exactly_at_the_size_is_cut_out(noise):
    pixels = noise(64, 48)
    fitted = fit(Image.fromarray(pixels), crop=Crop(5, 7, 32, 16), width=32, height=16)
    assert np.array_equal(fitted, pixels[7:23, 5:37])


@pytest.mark.parametrize(
    "size", [(16, 16), (7, 31), (64, 90), (256, 8), (120, 60), (140, 80), (260, 180), (90, 240)]
)
@pytest.mark.parametrize("pattern", ["noise", "lines", "checks", "red"])
def test_the_crop_is_scaled_as_pillow_does_without_pixels_from_outside(noise, pattern, size):
    pixels = noise(150, 100)
    inside = pixels[4:94, 8:138]
    if pattern == "lines":
        inside[:] = 255
        inside[::7], inside[:, ::11] = 0, 0
    elif pattern == "checks":
        inside[:] = (np.indices(inside.shape[:2]).sum(0) % 2 * 255)[..., None]
    elif pattern == "red":
        inside[:] = (255, 0, 0)
    width, height = size
    fitted = fit(Image.fromarray(pixels), crop=Crop(8, 4, 130, 90), width=width, height=height)
    plain = np.asarray(Image.fromarray(inside).resize(size, Image.Resampling.LANCZOS))
    difference = fitted.astype(int) - plain
    assert abs(difference).max() <= 2
    # 48 dB: what a step of one in every value comes to.
    assert (difference**2).mean() <= 255**2 / 10**4.8


def test_the_result_is_uint8_height_width_3_and_may_be_written_to(noise):
    image = Image.fromarray(noise(64, 48))
    fitted = fit(image, crop=Crop(0, 0, 64, 48), width=32, height=16)
    assert (fitted.shape, fitted.dtype, fitted.flags.c_contiguous) == ((16, 32, 3), np.uint8, True)
    same = fit(image, crop=Crop(0, 0, 64, 48), width=64, height=48)
    same[:] = 0
    assert np.asarray(image).any()


@pytest.mark.parametrize(
    "crop", [Crop(-1, 0, 9, 9), Crop(56, 0, 9, 9), Crop(0, 40, 9, 9), Crop(0, 0, 0, 9)]
)
def test_a_crop_outside_of_the_picture_is_refused(crop, noise):
    with pytest.raises(ValueError, match="crop must lie inside"):
        fit(Image.fromarray(noise(64, 48)), crop=crop, width=16, height=16)
