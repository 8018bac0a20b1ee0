import io
import struct
import zlib
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from PIL import Image

from diffprep_resources.pictures.decode import PictureLimits


@pytest.fixture
def limits() -> PictureLimits:
    return PictureLimits(max_pixels=150_000_000, min_side=1)


@pytest.fixture
def encoded() -> Callable[..., bytes]:
    """An image as the bytes of a file."""

    def encode(image: Image.Image | np.ndarray, kind: str = "PNG", **options: object) -> bytes:
        if isinstance(image, np.ndarray):
            image = Image.fromarray(image)
        file = io.BytesIO()
        image.save(file, kind, **options)
        return file.getvalue()

    return encode


@pytest.fixture
def noise() -> Callable[..., np.ndarray]:
    """uint8 [height, width, 3], different in every pixel's neighbourhood."""

    def make(width: int, height: int, *, seed: int = 0) -> np.ndarray:
        rng = np.random.default_rng(seed)
        return rng.integers(0, 256, (height, width, 3), dtype=np.uint8)

    return make


@pytest.fixture
def png_chunk() -> Callable[[bytes, bytes], bytes]:
    def make(kind: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    return make


@pytest.fixture
def raw_png(png_chunk: Callable[[bytes, bytes], bytes]) -> Callable[..., bytes]:
    """A PNG written by hand: any depth and colour type, chunks before and after the pixels."""

    def make(
        size: tuple[int, int],
        depth: int,
        color: int,
        rows: Sequence[bytes],
        *,
        before: Sequence[tuple[bytes, bytes]] = (),
        after: Sequence[tuple[bytes, bytes]] = (),
    ) -> bytes:
        header = struct.pack(">IIBBBBB", *size, depth, color, 0, 0, 0)
        pixels = zlib.compress(b"".join(b"\0" + row for row in rows))
        chunks = [(b"IHDR", header), *before, (b"IDAT", pixels), *after, (b"IEND", b"")]
        return b"\x89PNG\r\n\x1a\n" + b"".join(png_chunk(*chunk) for chunk in chunks)

    return make
