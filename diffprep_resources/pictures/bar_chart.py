"""A horizontal bar chart of a few numbers, small enough to travel within an event."""

from collections.abc import Sequence
from io import BytesIO

from PIL import Image, ImageDraw, ImageFont

BACKGROUND = (34, 37, 42)
TEXT = (222, 226, 230)
BAR = (255, 196, 0)
FONT_SIZE = 13
ROW = 22
GAP = 8
LARGEST_LABEL = 0.4  # of the width
NARROWEST = 160


def bar_chart(rows: Sequence[tuple[str, float]], *, width: int) -> bytes:
    """A PNG `width` pixels wide, with a bar for each (label, value), as long as its value.

    The same rows give the same bytes. Raises ValueError for no rows, a negative value, or a width
    under 160.
    """
    if not rows or width < NARROWEST or any(value < 0 for _, value in rows):
        raise ValueError(
            f"a bar chart needs rows of values from 0 up and a width of at least {NARROWEST}; got "
            f"{len(rows)} rows, width {width}"
        )
    font = ImageFont.load_default(size=FONT_SIZE)
    labels = [_shortened(label, font, round(width * LARGEST_LABEL)) for label, _ in rows]
    values = [f"{value:,.6g}" if value % 1 else f"{value:,.0f}" for _, value in rows]
    left = round(2 * GAP + max(map(font.getlength, labels)))
    right = round(2 * GAP + max(map(font.getlength, values)))
    room, most = width - left - right, max(value for _, value in rows) or 1
    chart = Image.new("RGB", (width, ROW * len(rows) + 2 * GAP), BACKGROUND)
    draw = ImageDraw.Draw(chart)
    for number, (_, value) in enumerate(rows):
        top = GAP + ROW * number
        middle, end = top + ROW // 2, left + round(room * value / most)
        draw.text((left - GAP, middle), labels[number], fill=TEXT, font=font, anchor="rm")
        # One pixel for what is there at all, none for nothing.
        if value:
            bar = (left, top + 3, max(left + 1, end), top + ROW - 4)
            draw.rectangle(bar, fill=BAR)
        draw.text((end + GAP, middle), values[number], fill=TEXT, font=font, anchor="lm")
    buffer = BytesIO()
    chart.quantize(32).save(buffer, "PNG", optimize=True)
    return buffer.getvalue()


def _shortened(text: str, font: ImageFont.ImageFont | ImageFont.FreeTypeFont, width: int) -> str:
    """The text on one line, with its end left out where it is too wide."""
    text = " ".join(text.split())
    if font.getlength(text) <= width:
        return text
    while text and font.getlength(f"{text}..") > width:
        text = text[:-1]
    return f"{text}.."
