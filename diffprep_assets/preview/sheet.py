"""Looks at samples as a contact sheet, a terminal table and a page."""

from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from rich.table import Table
from rich.text import Text

from diffprep_assets.pages.page import picture_uri, render_page
from diffprep_assets.preview.looks import Look
from diffprep_assets.preview.shown_frames import FRAME_NAMES
from diffprep_resources.pictures.contact_sheet import Tile, contact_sheet

SHEET_SIDE = 256
SHEET_COLUMNS = 6
PAGE_SIDE = 512
SHOWN_REASONS = 3
SHORTEST_TEXT = 18


def sheet_jpeg(shown: Sequence[Look]) -> bytes:
    """Source and stored picture side by side, three samples a row; of clips three frames of each,
    one sample a row. Stored ones stand alone where no sample has its source."""
    paired = any(look.originals for look in shown)
    tiles = []
    for look in shown:
        if paired:
            gone = [np.full_like(picture, 127) for picture in look.pictures]
            label = look.sample.source_key if look.originals else "source is gone"
            tiles += _tiles(look.originals or gone, label)
        tiles += _tiles(look.pictures, _decoded_words(look))
    return contact_sheet(tiles, columns=SHEET_COLUMNS, side=SHEET_SIDE)


def _tiles(pictures: Sequence[np.ndarray], label: str) -> list[Tile]:
    """One picture under its label; of a clip's frames the others are named for their place."""
    labels = [label, *FRAME_NAMES[1:]][: len(pictures)]
    return [
        Tile(_small(pixels, SHEET_SIDE), words)
        for pixels, words in zip(pictures, labels, strict=True)
    ]


def table(shown: Sequence[Look], *, width: int) -> Table:
    """A row a sample: how near it is, its size, its place, its source, its caption. What does not
    fit `width` characters is cut: first captions, then names of sources."""
    # Of a shard in its bucket's folder the name alone: the size beside it tells the bucket.
    places = [f"{Path(look.sample.shard).name}/{look.sample.key}" for look in shown]
    fixed = 7 + max(len(look.size) for look in shown) + max(map(len, places)) + 8
    longest = max(len(look.sample.source_key) for look in shown)
    source = min(longest, max(SHORTEST_TEXT, width - fixed - SHORTEST_TEXT))
    caption = max(SHORTEST_TEXT, width - fixed - source)
    found = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    found.add_column("PSNR", justify="right", width=7, no_wrap=True)
    for name in ("size", "sample", "source", "caption"):
        found.add_column(name, no_wrap=True)
    for look, place in zip(shown, places, strict=True):
        found.add_row(
            Text(psnr_words(look), style="bold red" if look.is_poor else ""),
            look.size,
            Text(place),
            Text(_cut(look.sample.source_key, source)),
            Text(_cut(look.sample.caption, caption)),
        )
    return found


def page(shown: Sequence[Look], *, facts: Mapping[str, Any]) -> str:
    """One self-contained page. `facts`: `name`, `path`, `vae` (None for stored pictures), `seed`,
    `total` samples."""
    cards = [
        {
            "look": look,
            "psnr": psnr_words(look),
            "poor": look.is_poor,
            "decoded": [_uri(picture) for picture in look.pictures],
            "original": [_uri(picture) for picture in look.originals],
        }
        for look in shown
    ]
    has_sources = any(card["original"] for card in cards)
    missing = missing_words(shown)
    return render_page(
        "preview",
        cards=cards,
        has_sources=has_sources,
        missing=missing,
        frame_names=FRAME_NAMES,
        **facts,
    )


def psnr_words(look: Look) -> str:
    """`31.2 dB`, or a dash where there is nothing to compare with."""
    return "-" if look.psnr is None else f"{look.psnr:.1f} dB"


def missing_words(shown: Sequence[Look]) -> list[str]:
    """Why source pictures are not shown, each reason once, with the number of samples."""
    reasons: dict[str, int] = {}
    for look in shown:
        if look.original.pixels is None:
            reasons[look.original.missing] = reasons.get(look.original.missing, 0) + 1
    words = [f"{n} without the source's picture: {reason}" for reason, n in reasons.items()]
    more = sum(list(reasons.values())[SHOWN_REASONS:])
    return words[:SHOWN_REASONS] + ([f"{more} more without it, for like reasons"] if more else [])


def _cut(text: str, width: int) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) <= width else f"{plain[: width - 2]}.."


def _decoded_words(look: Look) -> str:
    return f"{look.sample.key}  {look.size}" + (f"  {psnr_words(look)}" if look.psnr else "")


def _small(pixels: np.ndarray, side: int) -> Image.Image:
    image = Image.fromarray(pixels)
    image.thumbnail((side, side), Image.Resampling.LANCZOS)
    return image


def _uri(pixels: np.ndarray) -> str:
    buffer = BytesIO()
    _small(pixels, PAGE_SIDE).save(buffer, "JPEG", quality=88)
    return picture_uri(buffer.getvalue())
