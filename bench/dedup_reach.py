"""What the perceptual hash catches: bits that differ between a picture and changed copies of it,
and pairs of different pictures that lie as near.

Without an argument over drawn pictures; with one over the pictures of that folder, which should be
all different.
"""

import io
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from PIL import Image, ImageDraw, ImageEnhance, ImageFilter, ImageFont, ImageOps

from diffprep_assets.curate.dedup import duplicates
from diffprep_resources.demo.pictures import draw_picture
from diffprep_resources.errors import SampleReject
from diffprep_resources.pictures.decode import load_upright
from diffprep_resources.pictures.opening import PictureLimits
from diffprep_resources.pictures.phash import perceptual_hash

CHANGED = 200
DISTINCT = 2_000
LARGEST_SIDE = 1_600
LIMITS = PictureLimits(max_pixels=150_000_000, min_side=16)

Change = Callable[[Image.Image], Image.Image]


def scaled(factor: float, *, width_only: bool = False) -> Change:
    def change(image: Image.Image) -> Image.Image:
        height = image.height if width_only else max(16, round(image.height * factor))
        return image.resize(
            (max(16, round(image.width * factor)), height), Image.Resampling.LANCZOS
        )

    return change


def cropped(share: float) -> Change:
    """The centre, with this share of width and height gone."""

    def change(image: Image.Image) -> Image.Image:
        left, top = round(image.width * share / 2), round(image.height * share / 2)
        return image.crop((left, top, image.width - left, image.height - top))

    return change


def bordered(share: float) -> Change:
    """White on all sides, this share of width and height together."""

    def change(image: Image.Image) -> Image.Image:
        size = round(image.width * share / 2), round(image.height * share / 2)
        return ImageOps.expand(image, border=(*size, *size), fill="white")

    return change


def watermarked(size: float, *, opacity: int) -> Change:
    """Text of this share of the height; at the lower right, or where it is large, in the middle."""

    def change(image: Image.Image) -> Image.Image:
        layer = Image.new("RGBA", image.size, (255, 255, 255, 0))
        font = ImageFont.load_default(size=max(8, image.height * size))
        place, anchor = (image.width - 8, image.height - 8), "rs"
        if size > 0.1:
            place, anchor = (image.width // 2, image.height // 2), "mm"
        ImageDraw.Draw(layer).text(
            place, "SAMPLE", fill=(255, 255, 255, opacity), font=font, anchor=anchor
        )
        return Image.alpha_composite(image.convert("RGBA"), layer).convert("RGB")

    return change


def noisy(image: Image.Image) -> Image.Image:
    noise = np.random.default_rng(0).normal(0, 8, (image.height, image.width, 3))
    return Image.fromarray(np.clip(np.asarray(image) + noise, 0, 255).astype(np.uint8))


def gamma(power: float) -> Change:
    curve = [round(255 * (value / 255) ** power) for value in range(256)]
    return lambda image: image.point(curve * 3)


CHANGES: dict[str, tuple[Change, int]] = {
    **{f"JPEG quality {quality}": (lambda image: image, quality) for quality in (95, 75, 50, 30)},
    "scaled to 1/2": (scaled(0.5), 90),
    "scaled to 1/4": (scaled(0.25), 90),
    "scaled to 2": (scaled(2), 90),
    "squeezed to 9/10 of its width": (scaled(0.9, width_only=True), 90),
    "grey": (lambda image: image.convert("L"), 90),
    "brightness + 20%": (lambda image: ImageEnhance.Brightness(image).enhance(1.2), 90),
    "brightness - 20%": (lambda image: ImageEnhance.Brightness(image).enhance(0.8), 90),
    "contrast + 30%": (lambda image: ImageEnhance.Contrast(image).enhance(1.3), 90),
    "gamma 1.3": (gamma(1.3), 90),
    "blurred by 2 pixels": (lambda image: image.filter(ImageFilter.GaussianBlur(2)), 90),
    "noise of 8 levels": (noisy, 90),
    "small text in a corner": (watermarked(0.05, opacity=200), 90),
    "large pale text across": (watermarked(0.2, opacity=90), 90),
    "cropped by 2%": (cropped(0.02), 90),
    "cropped by 5%": (cropped(0.05), 90),
    "cropped by 10%": (cropped(0.10), 90),
    "border of 2%": (bordered(0.02), 90),
    "border of 5%": (bordered(0.05), 90),
    "border of 10%": (bordered(0.10), 90),
    "turned by 2 degrees": (lambda image: image.rotate(2, Image.Resampling.BICUBIC), 90),
    "turned by 90 degrees": (lambda image: image.transpose(Image.Transpose.ROTATE_90), 90),
    "mirrored": (ImageOps.mirror, 90),
}


def jpeg(image: Image.Image, quality: int) -> bytes:
    file = io.BytesIO()
    image.save(file, "JPEG", quality=quality)
    return file.getvalue()


def hash_of(data: bytes) -> int | None:
    return perceptual_hash(data, limits=LIMITS, background="#ffffff")


def pictures(folder: Path | None) -> list[Image.Image]:
    """All different; of a folder, those that can be read, within 1,600 pixels."""
    if folder is None:
        return [draw_picture(number).image.convert("RGB") for number in range(CHANGED)]
    found = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        try:
            image = load_upright(path.read_bytes(), limits=LIMITS, background="#ffffff")
        except SampleReject:
            continue
        image.thumbnail((LARGEST_SIDE, LARGEST_SIDE), Image.Resampling.LANCZOS)
        found.append(image)
    return found


def show_changes(images: list[Image.Image]) -> None:
    """For each change how many copies lie within 0, 2, 4 bits of their originals."""
    originals = [(image, hash_of(jpeg(image, 95))) for image in images]
    hashed = [(image, value) for image, value in originals if value is not None]
    print(f"\n{len(hashed)} pictures with a hash, {len(images) - len(hashed)} without\n")
    print("| change | same hash | within 2 bits | within 4 bits | median | most |\n|" + "---|" * 6)
    for name, (change, quality) in CHANGES.items():
        copies = [(value, hash_of(jpeg(change(image), quality))) for image, value in hashed]
        bits = np.array(
            [64 if copy is None else (value ^ copy).bit_count() for value, copy in copies]
        )
        shares = " | ".join(f"{np.mean(bits <= most):.0%}" for most in (0, 2, 4))
        print(f"| {name} | {shares} | {np.median(bits):.0f} | {bits.max()} |", flush=True)


def show_pairs(images: list[Image.Image], what: str) -> None:
    """How many pairs of different pictures lie within 0 to 4 bits, the nearest pair, and how many
    pictures dedup would leave out."""
    found = [hash_of(jpeg(image, 95)) for image in images]
    hashes = np.array([value for value in found if value is not None], np.uint64)
    counts = np.zeros(65, np.int64)
    for place, value in enumerate(hashes):
        counts += np.bincount(np.bitwise_count(hashes[place + 1 :] ^ value), minlength=65)
    within = ", ".join(f"{most}: {counts[: most + 1].sum():,}" for most in range(5))
    table = pa.table(
        {
            "key": [f"{number:06d}" for number in range(len(images))],
            "image_digest": [f"{number:06d}" for number in range(len(images))],
            "hash": pa.array(found, pa.uint64()),
            "area": [image.width * image.height for image in images],
            "planned": [False] * len(images),
        }
    )
    left_out = {
        most: sum(not each.keep for each in duplicates(table, max_distance=most))
        for most in (0, 2, 4)
    }
    print(f"\n{len(hashes):,} different {what} with a hash, {counts.sum():,} pairs")
    print(f"pairs within N bits: {within}; the nearest differ in {np.flatnonzero(counts)[0]} bits")
    print(f"left out with a max_distance of N: {left_out}")


def pieces(images: list[Image.Image]) -> Iterator[Image.Image]:
    """Each picture cut in n by n, sides of 230 pixels and more."""
    for image in images:
        n = max(1, min(image.size) // 230)
        width, height = image.width // n, image.height // n
        for top in range(0, height * n, height):
            for left in range(0, width * n, width):
                yield image.crop((left, top, left + width, top + height))


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    images = pictures(folder)
    show_changes(images)
    if folder is None:
        drawn = [draw_picture(number).image.convert("RGB") for number in range(DISTINCT)]
        show_pairs(drawn, "drawn pictures")
    else:
        show_pairs(images, "pictures")
        show_pairs(list(pieces(images)), "pieces of them")


if __name__ == "__main__":
    main()
