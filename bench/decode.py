"""Pictures a second per core from JPEG bytes to cropped pixels, and how near plain PIL they are.

Plain PIL: decode in full, crop, Lanczos. Prints rates, their ratio, and the worst PSNR:

    python bench/decode.py [--pictures 20]
"""

import argparse
import io
import statistics
import time
from collections.abc import Callable

import numpy as np
from inputs import photograph
from PIL import Image

from diffprep_resources.encoders.threads import one_thread_on_cpu
from diffprep_resources.pictures.decode import PictureLimits, load_upright
from diffprep_resources.pictures.fit import Crop, fit

LIMITS = PictureLimits(max_pixels=150_000_000, min_side=16)
SIZES = {"0.9 megapixels": (1130, 800), "12 megapixels": (4000, 3000)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pictures", type=int, default=20)
    options = parser.parse_args()
    one_thread_on_cpu("cpu")
    random = np.random.default_rng(0)
    for name, (width, height) in SIZES.items():
        count = options.pictures if width < 2000 else max(3, options.pictures // 4)
        pictures = [jpeg(photograph(width, height, random)) for _ in range(count)]
        for side in (256, 1024):
            compare(name, pictures, side)
        for kind, hard in HARD.items():
            worst = min(apart([jpeg(hard(width, height, random))], side) for side in (256, 1024))
            print(f"  {kind}: worst PSNR {worst:.1f} dB")


def compare(name: str, pictures: list[bytes], side: int) -> None:
    plain, plain_rate = timed(pictures, lambda data: plain_pil(data, side))
    ours, rate = timed(pictures, lambda data: project_path(data, side))
    worst = min(map(psnr, plain, ours))
    print(
        f"{name} to {side} px: plain PIL {plain_rate:.0f} a second, ours {rate:.0f} "
        f"({rate / plain_rate:.2f} times), worst PSNR {worst:.1f} dB (never below 48)"
    )


def apart(pictures: list[bytes], side: int) -> float:
    """The worst PSNR of the project's path against plain PIL, in dB."""
    return min(psnr(plain_pil(data, side), project_path(data, side)) for data in pictures)


def noise(width: int, height: int, random: np.random.Generator) -> Image.Image:
    return Image.fromarray(random.integers(0, 256, (height, width, 3), dtype=np.uint8))


def thin_lines(width: int, height: int, random: np.random.Generator) -> Image.Image:
    pixels = np.full((height, width, 3), 255, np.uint8)
    pixels[:: int(random.integers(5, 12))] = 0
    pixels[:, :: int(random.integers(5, 12))] = 0
    return Image.fromarray(pixels)


def checks(width: int, height: int, random: np.random.Generator) -> Image.Image:
    squares = (np.indices((height, width)) // int(random.integers(1, 4))).sum(0) % 2
    return Image.fromarray((squares * 255).astype(np.uint8)).convert("RGB")


# Kinds on which a cheaper way of scaling shows.
HARD = {"noise": noise, "thin lines": thin_lines, "checks": checks}


def timed(
    pictures: list[bytes], work: Callable[[bytes], np.ndarray]
) -> tuple[list[np.ndarray], float]:
    """The results, and pictures a second by the median of the single times."""
    results, seconds = [], []
    for data in pictures:
        begin = time.perf_counter()
        results.append(work(data))
        seconds.append(time.perf_counter() - begin)
    return results, 1 / statistics.median(seconds)


def plain_pil(data: bytes, side: int) -> np.ndarray:
    with Image.open(io.BytesIO(data)) as picture:
        crop = square(*picture.size)
        box = (crop.left, crop.top, crop.left + crop.width, crop.top + crop.height)
        return np.asarray(
            picture.convert("RGB").crop(box).resize((side, side), Image.Resampling.LANCZOS)
        )


def project_path(data: bytes, side: int) -> np.ndarray:
    picture = load_upright(data, limits=LIMITS, background="#ffffff")
    return fit(picture, crop=square(*picture.size), width=side, height=side)


def square(width: int, height: int) -> Crop:
    side = min(width, height)
    return Crop((width - side) // 2, (height - side) // 2, side, side)


def jpeg(picture: Image.Image) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=90)
    return buffer.getvalue()


def psnr(one: np.ndarray, other: np.ndarray) -> float:
    error = np.mean((one.astype(np.float64) - other.astype(np.float64)) ** 2)
    return float("inf") if error == 0 else 10 * np.log10(255**2 / error)


if __name__ == "__main__":
    main()
