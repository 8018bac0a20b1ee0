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


def test_the_crop_is_scaled_by_lanczos_without_pixels_from_outside(noise):
    pixels = noise(64, 48)
    fitted = fit(Image.fromarray(pixels), crop=Crop(8, 4, 40, 40), width=16, height=16)
    alone = Image.fromarray(pixels[4:44, 8:48]).resize((16, 16), Image.Resampling.LANCZOS)
    assert np.array_equal(fitted, np.asarray(alone))


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
