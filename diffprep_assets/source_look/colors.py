"""Pictures whose colours are not the usual eight bits of red, green and blue."""

from diffprep_resources.errors import SampleReject
from diffprep_resources.pictures.decode import PictureLimits
from diffprep_resources.pictures.opening import open_picture, reading_picture

ANY_SIZE = PictureLimits(max_pixels=1 << 40, min_side=1)


def unusual_colors(data: bytes) -> str | None:
    """What is unusual, by the header alone; None where nothing is, or it cannot be opened."""
    try:
        with reading_picture():
            opened = open_picture(data, limits=ANY_SIZE)
            mode = opened.image.mode
    except SampleReject:
        return None
    if opened.bit_depth > 8 or mode in ("I", "F") or mode.startswith("I;16"):
        return "16 bits a channel or more; 8 are taken"
    return f"{mode} colours; converted to sRGB" if mode in ("CMYK", "LAB", "YCbCr") else None
