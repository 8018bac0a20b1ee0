"""The demo's pictures: shapes on a soft background, and captions that say what is there."""

import math
import random
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, ImageChops, ImageDraw, ImageFilter

from diffprep_resources.demo.words import BACKGROUNDS, COLOURS, NUMBERS, PLACES, SHAPES, SIZES

MIN_AREA = 100_000
MAX_AREA = 1_000_000
# Width / height; all within the range that buckets take by default, 1/2 to 2.
_ASPECTS = (1.0, 1.0, 4 / 3, 3 / 4, 3 / 2, 2 / 3, 16 / 9, 9 / 16, 1.9, 0.54)
# How a stored picture must be turned to lie so that the EXIF orientation makes it upright again.
_STORED_AS = {
    3: Image.Transpose.ROTATE_180,
    6: Image.Transpose.ROTATE_90,
    8: Image.Transpose.ROTATE_270,
}
_ORIENTATION_TAG = 0x0112


@dataclass(frozen=True, slots=True)
class DrawnPicture:
    """One picture, upright. `orientation` is the EXIF value under which it is to be stored."""

    image: Image.Image
    caption: str
    suffix: str
    orientation: int = 1


@dataclass(frozen=True, slots=True)
class _Shape:
    kind: str
    colour: str
    size: str
    place: str

    def words(self, *, in_colour: bool) -> str:
        colour = f"{self.colour} " if in_colour else ""
        return f"a {self.size} {colour}{self.kind} {self.place}"


def draw_pictures(folder: Path, *, count: int = 240, seed: int = 0) -> None:
    """Write `images/` and `captions/`, paired by stem. The same numbers give the same pictures."""
    images, captions = folder / "images", folder / "captions"
    images.mkdir(parents=True, exist_ok=True)
    captions.mkdir(parents=True, exist_ok=True)
    for index in range(count):
        drawn = draw_picture(index, seed=seed)
        stem = f"shapes-{index:04d}"
        save_picture(drawn, images / f"{stem}{drawn.suffix}")
        (captions / f"{stem}.txt").write_text(drawn.caption, encoding="utf-8")


def draw_picture(index: int, *, seed: int = 0) -> DrawnPicture:
    """The picture of that number: 0.1 to 1 megapixels, in one of three formats; some are grey."""
    rng = random.Random(f"{seed}:{index}")
    width, height = _size(rng)
    background = rng.choice(list(BACKGROUNDS))
    places = rng.sample(list(PLACES), rng.choice((1, 2, 2, 3, 3, 4)))
    colours = rng.sample(list(COLOURS), len(places))
    shapes = [
        _Shape(rng.choice(SHAPES), colour, rng.choice(list(SIZES)), place)
        for colour, place in zip(colours, places, strict=True)
    ]
    image = _background(width, height, name=background)
    for shape in shapes:
        _draw(image, shape, rng=rng)
    suffix = rng.choices((".jpg", ".png", ".webp"), (20, 2, 2))[0]
    in_colour = rng.random() > 0.06
    turned = suffix == ".jpg" and rng.random() < 0.15
    return DrawnPicture(
        image=image if in_colour else image.convert("L"),
        caption=_caption(shapes, background=background, in_colour=in_colour),
        suffix=suffix,
        orientation=rng.choice(list(_STORED_AS)) if turned else 1,
    )


def save_picture(drawn: DrawnPicture, path: Path) -> None:
    """Write the picture; a turned one lies as a camera stores it, with its EXIF orientation."""
    if drawn.suffix == ".png":
        drawn.image.save(path, compress_level=3)
    elif drawn.suffix == ".webp":
        drawn.image.save(path, quality=90, method=2)
    elif drawn.orientation == 1:
        drawn.image.save(path, quality=92)
    else:
        exif = Image.Exif()
        exif[_ORIENTATION_TAG] = drawn.orientation
        stored = drawn.image.transpose(_STORED_AS[drawn.orientation])
        stored.save(path, quality=92, exif=exif)


def _size(rng: random.Random) -> tuple[int, int]:
    """Width and height in pixels; areas are spread evenly on a logarithmic scale."""
    area = MIN_AREA * 1.06 * (MAX_AREA * 0.94 / (MIN_AREA * 1.06)) ** rng.random()
    aspect = rng.choice(_ASPECTS)
    return round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))


def _caption(shapes: list[_Shape], *, background: str, in_colour: bool) -> str:
    words = [shape.words(in_colour=in_colour) for shape in shapes]
    listed = words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
    if not in_colour:
        return f"a drawing of {NUMBERS[len(shapes) - 1]} in black and white, {listed}"
    return f"{listed} on a {background} background"


def _background(width: int, height: int, *, name: str) -> Image.Image:
    """A soft gradient from the top left to the bottom right."""
    light, dark = BACKGROUNDS[name]
    middle = tuple((a + b) // 2 for a, b in zip(light, dark, strict=True))
    corners = Image.new("RGB", (2, 2))
    for at, colour in (((0, 0), light), ((1, 0), middle), ((0, 1), middle), ((1, 1), dark)):
        corners.putpixel(at, colour)
    return corners.resize((width, height), Image.Resampling.BICUBIC)


def _draw(image: Image.Image, shape: _Shape, *, rng: random.Random) -> None:
    """Draw one shape with a soft shadow into its cell of the 3 by 3 grid."""
    width, height = image.size
    column, row = PLACES[shape.place]
    reach = min(width, height) / 6
    radius = max(4, round(reach * SIZES[shape.size]))
    slack = (reach - radius) * 0.8
    left = round(width * (2 * column + 1) / 6 + rng.uniform(-slack, slack)) - radius
    top = round(height * (2 * row + 1) / 6 + rng.uniform(-slack, slack)) - radius
    mask = _mask(shape.kind, radius=radius, turn=rng.uniform(-0.2, 0.2))
    offset = max(2, radius // 10)
    side = 2 * radius
    shadow = Image.new("L", (side + 4 * offset, side + 4 * offset))
    shadow.paste(mask, (offset, offset))
    shadow = shadow.filter(ImageFilter.BoxBlur(offset)).point([value // 4 for value in range(256)])
    image.paste((40, 40, 60), (left, top + offset), shadow)
    image.paste(_shaded(COLOURS[shape.colour], side=side), (left, top), mask)


def _shaded(colour: tuple[int, int, int], *, side: int) -> Image.Image:
    """A square of the colour, a little lighter at the top than at the bottom."""
    ramp = (
        Image.linear_gradient("L")
        .resize((side, side))
        .point([max(0, 24 - value // 6) for value in range(256)])
    )
    lighter = Image.merge("RGB", (ramp, ramp, ramp))
    return ImageChops.add(Image.new("RGB", (side, side), colour), lighter)


def _mask(kind: str, *, radius: int, turn: float) -> Image.Image:
    """The shape as coverage (0 to 255), 2 * radius wide, smooth at the edge. `turn` in radians."""
    scale = 4
    side = 2 * radius * scale
    mask = Image.new("L", (side, side))
    draw = ImageDraw.Draw(mask)
    if kind in {"circle", "ring"}:
        draw.ellipse((0, 0, side - 1, side - 1), fill=255)
        if kind == "ring":
            hole = side * 0.27
            draw.ellipse((hole, hole, side - 1 - hole, side - 1 - hole), fill=0)
    else:
        middle = side / 2
        points = [
            (
                middle + middle * length * math.sin(angle + turn),
                middle - middle * length * math.cos(angle + turn),
            )
            for angle, length in _corners(kind)
        ]
        draw.polygon(points, fill=255)
    return mask.reduce(scale)


def _corners(kind: str) -> list[tuple[float, float]]:
    """Corners as (angle clockwise from the top in radians, distance from the middle, at most 1)."""
    if kind == "star":
        return [(math.pi * step / 5, 1.0 if step % 2 == 0 else 0.42) for step in range(10)]
    if kind == "cross":
        narrow, wide = math.atan2(0.3, 0.95), math.pi / 4
        quarter = [(-narrow, 1.0), (narrow, 1.0), (wide, 0.3 * math.sqrt(2))]
        return [(angle + math.pi / 2 * step, far) for step in range(4) for angle, far in quarter]
    number = {"triangle": 3, "square": 4, "diamond": 4, "hexagon": 6}[kind]
    first = math.pi / 4 if kind == "square" else 0.0
    return [(first + 2 * math.pi * step / number, 1.0) for step in range(number)]
