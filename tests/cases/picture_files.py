"""Picture files of every kind that people feed a tool of this sort, small and made in memory."""

import io
import struct
import zlib
from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageCms

Chunk = tuple[bytes, bytes]


def noise(width: int, height: int, seed: int = 0) -> Image.Image:
    rng = np.random.default_rng([width, height, seed])
    return Image.fromarray(rng.integers(0, 256, (height, width, 3), dtype=np.uint8))


def flat(color: object, *, mode: str = "RGB", size: tuple[int, int] = (40, 40)) -> Image.Image:
    return Image.new(mode, size, color)  # pyright: ignore[reportArgumentType]


def encoded(image: Image.Image, kind: str, **options: object) -> bytes:
    """The image as the bytes of a file."""
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def turned(value: int) -> Image.Exif:
    """EXIF of this orientation."""
    exif = Image.Exif()
    exif[0x0112] = value
    return exif


def chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png(
    size: tuple[int, int],
    depth: int,
    color: int,
    row: bytes,
    *,
    before: Sequence[Chunk] = (),
    after: Sequence[Chunk] = (),
) -> bytes:
    """A PNG written by hand: any depth and colour type, every row alike."""
    header = struct.pack(">IIBBBBB", *size, depth, color, 0, 0, 0)
    rows = min(size[1], 64)
    pixels = zlib.compress((b"\0" + row) * rows)
    chunks = [(b"IHDR", header), *before, (b"IDAT", pixels), *after, (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*each) for each in chunks)


def grey_tiff(values: Sequence[int], *, bits: int, white_is_zero: bool) -> bytes:
    """A grey TIFF of 20 equal rows, written by hand."""
    kind = "<H" if bits == 16 else "<B"
    row = b"".join(struct.pack(kind, value) for value in values)
    pixels = row * 20
    tags = [(256, 4, len(values)), (257, 4, 20), (258, 3, bits), (259, 3, 1)]
    tags += [(262, 3, 0 if white_is_zero else 1), (273, 4, 8), (277, 3, 1), (278, 4, 20)]
    tags += [(279, 4, len(pixels))]
    directory = struct.pack("<H", len(tags))
    for tag, width, value in tags:
        directory += struct.pack("<HHII", tag, width, 1, value)
    return b"II\x2a\0" + struct.pack("<I", 8 + len(pixels)) + pixels + directory + bytes(4)


# -- colour profiles --------------------------------------------------------------------------

D50 = (0.9642, 1.0, 0.8249)
# Columns are the D50 primaries of Adobe RGB (1998) and of sRGB.
ADOBE_TO_XYZ = np.array(
    [[0.60974, 0.20528, 0.14919], [0.31111, 0.62567, 0.06322], [0.01947, 0.06087, 0.74457]]
)
SRGB_TO_XYZ = np.array(
    [[0.43607, 0.38515, 0.14307], [0.22249, 0.71687, 0.06061], [0.01392, 0.09708, 0.71410]]
)


def _fixed(*values: float) -> bytes:
    return b"".join(struct.pack(">i", round(value * 65536)) for value in values)


def _profile(space: bytes, tags: Sequence[Chunk], *, connection: bytes) -> bytes:
    """An ICC version 2 profile of these tags and the three that every profile has."""
    name = b"desc\0\0\0\0" + struct.pack(">I", 5) + b"test\0" + bytes(79)
    white = b"XYZ \0\0\0\0" + _fixed(*D50)
    every = [(b"desc", name), (b"cprt", b"text\0\0\0\0none\0"), (b"wtpt", white), *tags]
    table, body = struct.pack(">I", len(every)), b""
    start = 128 + 4 + 12 * len(every)
    for signature, data in every:
        table += signature + struct.pack(">II", start + len(body), len(data))
        body += data + bytes(-len(data) % 4)
    head = struct.pack(
        ">I4xI4s4s4s12x4s", start + len(body), 0x02400000, b"mntr", space, connection, b"acsp"
    )
    return head.ljust(68, b"\0") + _fixed(*D50) + bytes(48) + table + body


def adobe_rgb() -> bytes:
    """A wide-gamut profile: Adobe RGB (1998), gamma 2.2."""
    curve = b"curv\0\0\0\0" + struct.pack(">IH", 1, round(2.2 * 256))
    columns = zip((b"rXYZ", b"gXYZ", b"bXYZ"), ADOBE_TO_XYZ.T, strict=True)
    primaries = [(name, b"XYZ \0\0\0\0" + _fixed(*column)) for name, column in columns]
    curves = [(name, curve) for name in (b"rTRC", b"gTRC", b"bTRC")]
    return _profile(b"RGB ", [*primaries, *curves], connection=b"XYZ ")


def dull_inks() -> bytes:
    """A CMYK profile whose inks are the greys 20, 40, 60 and 0 in Lab lightness."""
    nodes = b""
    for corner in range(16):
        inks = [bool(corner & bit) for bit in (8, 4, 2, 1)]
        lightness = min((20, 40, 60, 0)[at] if ink else 100 for at, ink in enumerate(inks))
        nodes += bytes((round(lightness * 2.55), 128, 128))
    same = bytes(range(256))
    table = b"mft1\0\0\0\0" + bytes((4, 3, 2, 0)) + _fixed(1, 0, 0, 0, 1, 0, 0, 0, 1)
    return _profile(b"CMYK", [(b"A2B0", table + same * 4 + nodes + same * 3)], connection=b"Lab ")


def srgb_profile() -> bytes:
    return ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()


def srgb_of_adobe(color: Sequence[int]) -> np.ndarray:
    """The sRGB values of an Adobe RGB colour, by colour arithmetic."""
    linear = np.linalg.inv(SRGB_TO_XYZ) @ ADOBE_TO_XYZ @ (np.array(color) / 255) ** 2.2
    return _srgb(linear)


def srgb_of_grey(lightness: float) -> float:
    """The sRGB value of a grey of this Lab lightness."""
    middle = (lightness + 16) / 116
    y = middle**3 if middle > 6 / 29 else 3 * (6 / 29) ** 2 * (middle - 4 / 29)
    return float(_srgb(np.array(y)))


def _srgb(linear: np.ndarray) -> np.ndarray:
    clipped = np.clip(linear, 0, 1)
    curved = 1.055 * clipped ** (1 / 2.4) - 0.055
    return 255 * np.where(clipped <= 0.0031308, 12.92 * clipped, curved)
