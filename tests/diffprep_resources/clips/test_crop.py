from fractions import Fraction

import pytest

from diffprep_resources.clips.crop import crop_box
from diffprep_resources.pictures.fit import Crop

GUIDE = (832, 480)


@pytest.mark.parametrize(
    ("size", "crop"),
    [
        # What fastvideo/dataset/transform.py gives, run by hand.
        ((1280, 720), Crop(16, 0, 1248, 720)),
        ((720, 1280), Crop(0, 432, 720, 415)),
        ((854, 480), Crop(11, 0, 832, 480)),
        ((832, 480), Crop(0, 0, 832, 480)),
        ((641, 361), Crop(8, 0, 625, 361)),
        ((3840, 2160), Crop(48, 0, 3744, 2160)),
    ],
)
def test_square_pixels_are_cropped_with_fastvideos_integers(
    size: tuple[int, int], crop: Crop
) -> None:
    assert crop_box(*size, to=GUIDE) == crop


def test_wide_pixels_are_cropped_as_they_are_shown() -> None:
    assert crop_box(72, 96, to=(64, 64), sar=Fraction(4, 3)) == Crop(0, 0, 72, 96)
    assert crop_box(96, 72, to=(64, 64), sar=Fraction(3, 4)) == Crop(0, 0, 96, 72)
    # Anamorphic PAL, 16:9: three quarters of its 720 columns make a 4:3 picture.
    assert crop_box(720, 576, to=(640, 480), sar=Fraction(64, 45)) == Crop(90, 0, 540, 576)


def test_a_crop_is_never_empty() -> None:
    assert crop_box(4000, 1, to=(16, 1600)).width == 1
    assert crop_box(1, 4000, to=(1600, 16)).height == 1
