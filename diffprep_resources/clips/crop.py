"""The part of an upright frame that fills the wanted shape."""

from fractions import Fraction

from diffprep_resources.pictures.fit import Crop


def crop_box(width: int, height: int, *, to: tuple[int, int], sar: Fraction = Fraction(1)) -> Crop:
    """The centred crop in stored pixels that has the aspect of `to` (width, height) when shown.

    Where pixels are square it is FastVideo's (fastvideo/dataset/transform.py, center_crop_th_tw),
    with its floats and its rounding of halves to even.
    """
    aspect = to[1] / to[0]
    pixel = float(sar)
    if height / (width * pixel) > aspect:
        cropped = (width, max(1, int(width * pixel * aspect)))
    else:
        cropped = (max(1, int(height / aspect / pixel)), height)
    left, top = round((width - cropped[0]) / 2.0), round((height - cropped[1]) / 2.0)
    return Crop(left, top, *cropped)
