"""Many small pictures on one sheet, each with what is kept of it and a label."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO

from PIL import Image, ImageDraw, ImageFont

QUALITIES = (85, 75, 65, 55, 45)
SMALLEST_SIDE = 24
LARGEST_SHEET = 16_384  # pixels on a side; browsers show no JPEG beyond that with certainty
GAP = 6
# Neutral and dark: it does not glare on a dark page, and pictures stand out on a light one.
BACKGROUND = (34, 37, 42)
LABEL = (222, 226, 230)
FRAME = (255, 196, 0)
FRAME_EDGE = (20, 20, 20)
DIMMED = 0.62


@dataclass(frozen=True, slots=True)
class Tile:
    """One picture of a sheet. `kept` is the part that is used, as left, top, right, bottom in
    fractions of the picture; the rest is shown dimmed. Of many tiles, hold small pictures only."""

    picture: Image.Image
    label: str = ""
    kept: tuple[float, float, float, float] | None = None


def kept_part(
    crop: tuple[int, int, int, int], *, width: int, height: int
) -> tuple[float, float, float, float]:
    """A crop (left, top, width, height) in a picture's pixels, as a tile's fractions of it."""
    left, top, crop_width, crop_height = crop
    right, bottom = left + crop_width, top + crop_height
    return left / width, top / height, right / width, bottom / height


def contact_sheet(
    tiles: Sequence[Tile], *, columns: int, side: int, max_bytes: int | None = None
) -> bytes:
    """A JPEG of the tiles in rows of `columns`, each picture within `side` x `side` pixels.

    Where it would be over `max_bytes`, first the quality is lowered, then the side. The same tiles
    give the same bytes. Raises ValueError for no tiles, no columns, a side under 24, or where even
    tiles of 24 pixels do not fit.
    """
    if not tiles or columns < 1 or side < SMALLEST_SIDE:
        raise ValueError(
            f"a contact sheet needs tiles, a column and a side of at least {SMALLEST_SIDE} pixels; "
            f"got {len(tiles)} tiles, {columns} columns, side {side}"
        )
    columns = min(columns, len(tiles))
    most = LARGEST_SHEET // max(columns, math.ceil(len(tiles) / columns))
    side = max(SMALLEST_SIDE, min(side, most - 2 * GAP - 18))
    while True:
        sheet = _drawn(tiles, columns=columns, side=side)
        data = _jpeg(sheet, QUALITIES[0])
        for quality in QUALITIES[1:]:
            if max_bytes is None or len(data) <= max_bytes:
                break
            data = _jpeg(sheet, quality)
        if max_bytes is None or len(data) <= max_bytes:
            return data
        if side == SMALLEST_SIDE:
            raise ValueError(
                f"{len(tiles)} tiles of {side} pixels take {len(data)} bytes; max_bytes must be at "
                f"least that, got {max_bytes}"
            )
        side = max(SMALLEST_SIDE, side * 4 // 5)


def _drawn(tiles: Sequence[Tile], *, columns: int, side: int) -> Image.Image:
    size = _font_size(side)
    label_height = size + 5 if any(tile.label for tile in tiles) else 0
    rows = math.ceil(len(tiles) / columns)
    cell = (side + GAP, side + label_height + GAP)
    sheet = Image.new("RGB", (GAP + columns * cell[0], GAP + rows * cell[1]), BACKGROUND)
    draw, font = ImageDraw.Draw(sheet), ImageFont.load_default(size=size)
    for number, tile in enumerate(tiles):
        row, column = divmod(number, columns)
        left, top = GAP + column * cell[0], GAP + row * cell[1]
        small = _small(tile, side=side)
        sheet.paste(small, (left + (side - small.width) // 2, top + (side - small.height) // 2))
        text = _shortened(tile.label, font, side)
        draw.text((left + side / 2, top + side + 2), text, fill=LABEL, font=font, anchor="ma")
    return sheet


def _font_size(side: int) -> int:
    return max(9, min(13, side // 11))


def _small(tile: Tile, *, side: int) -> Image.Image:
    """The tile's picture, its longer side `side`, with what is cut off dimmed."""
    scale = side / max(tile.picture.size)
    size = (
        max(1, round(tile.picture.width * scale)),
        max(1, round(tile.picture.height * scale)),
    )
    small = _on_white(tile.picture).resize(size, Image.Resampling.LANCZOS, reducing_gap=3.0)
    if tile.kept is None:
        return small
    left, top, right, bottom = tile.kept
    box = (
        min(small.width - 1, round(left * small.width)),
        min(small.height - 1, round(top * small.height)),
        max(1, round(right * small.width)),
        max(1, round(bottom * small.height)),
    )
    shown = Image.blend(small, Image.new("RGB", small.size), DIMMED)
    shown.paste(small.crop(box), box[:2])
    draw = ImageDraw.Draw(shown)
    inner = (box[0], box[1], max(box[0], box[2] - 1), max(box[1], box[3] - 1))
    width = max(1, side // 80)
    draw.rectangle(inner, outline=FRAME_EDGE, width=width + 1)
    draw.rectangle(inner, outline=FRAME, width=width)
    return shown


def _on_white(picture: Image.Image) -> Image.Image:
    if "A" not in picture.getbands() and "transparency" not in picture.info:
        return picture.convert("RGB")
    white = Image.new("RGBA", picture.size, "white")
    return Image.alpha_composite(white, picture.convert("RGBA")).convert("RGB")


def _shortened(text: str, font: ImageFont.ImageFont | ImageFont.FreeTypeFont, width: int) -> str:
    """The text, with its middle left out where it is too wide: a path's end tells most."""
    text = " ".join(text.split())
    if font.getlength(text) <= width:
        return text
    for kept in range(min(len(text), width) - 1, 1, -1):
        head = kept // 3
        shorter = f"{text[:head]}..{text[head - kept :]}"
        if font.getlength(shorter) <= width:
            return shorter
    return ""


def _jpeg(sheet: Image.Image, quality: int) -> bytes:
    buffer = BytesIO()
    sheet.save(buffer, "JPEG", quality=quality, optimize=True, progressive=True)
    return buffer.getvalue()
