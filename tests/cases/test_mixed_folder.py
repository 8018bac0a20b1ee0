"""One of each bad kind among fifty good pictures: fifty are written, the rest say why not."""

import io
import json
import os
import struct
import zlib
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from diffprep_assets.cli import app
from diffprep_assets.rejects import read_rejects

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import ProjectFolder


def encoded(image: Image.Image, kind: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def noise(width: int, height: int) -> Image.Image:
    rng = np.random.default_rng([width, height])
    return Image.fromarray(rng.integers(0, 256, (height, width, 3), dtype=np.uint8))


def png_that_claims(width: int, height: int) -> bytes:
    """A PNG whose header lies about its size."""
    header = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = encoded(noise(40, 40), "PNG")
    return data[:12] + header + struct.pack(">I", zlib.crc32(header)) + data[33:]


def bad_pictures() -> dict[str, tuple[bytes, str]]:
    """Content and the reason expected, by name; each has a caption."""
    good = encoded(noise(90, 60), "JPEG")
    png = encoded(noise(90, 60), "PNG")
    return {
        "cut.jpg": (good[: len(good) // 2], "unreadable_image"),
        "cut.png": (png[: len(png) // 2], "unreadable_image"),
        "empty.jpg": (b"", "unreadable_image"),
        "page.jpg": (b"<!DOCTYPE html><html><body>404</body></html>", "unreadable_image"),
        "dot.png": (encoded(noise(1, 1), "PNG"), "too_small"),
        "line.png": (encoded(noise(1, 300), "PNG"), "too_small"),
        "bomb.png": (png_that_claims(60_000, 60_000), "too_large"),
        "photo.heic": (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(64), "unsupported_format"),
        "photo.jxl": (b"\0\0\0\x0cJXL \r\n\x87\n" + bytes(64), "unsupported_format"),
    }


def bad_captions() -> dict[str, tuple[bytes | None, str]]:
    """A caption file's content (None: no file) and the reason expected, by stem."""
    return {
        "silent": (None, "no_caption"),
        "blank": (b" \r\n", "no_caption"),
        "odd": (bytes([0x80, 0xFE, 0x00, 0xC3, 0x28, 0x81, 0x01]), "caption_encoding"),
    }


def write_bad(pictures: "Path") -> dict[str, str]:
    """One of each kind under `pictures`; the reason expected, by source key."""
    expected = {}
    for name, (data, code) in bad_pictures().items():
        (pictures / "images" / name).write_bytes(data)
        (pictures / "captions" / f"{name.split('.')[0]}.txt").write_text("a caption")
        expected[f"images/{name}"] = code
    for stem, (caption, code) in bad_captions().items():
        (pictures / "images" / f"{stem}.png").write_bytes(encoded(noise(80, 80), "PNG"))
        if caption is not None:
            (pictures / "captions" / f"{stem}.txt").write_bytes(caption)
        expected[f"images/{stem}.png"] = code
    os.symlink("/nowhere/at/all.jpg", pictures / "images" / "gone.jpg")
    (pictures / "captions" / "gone.txt").write_text("a caption")
    expected["images/gone.jpg"] = "source_missing"
    return expected


@pytest.fixture
def mixed(project: "ProjectFolder") -> dict[str, str]:
    """Fifty good pictures, one of each bad kind, and files that are no pictures."""
    project.write_pictures(range(49))
    frames = [noise(64, 64), noise(64, 64).rotate(90)]
    moving = encoded(frames[0], "GIF", save_all=True, append_images=frames[1:])
    (project.pictures / "images" / "moving.gif").write_bytes(moving)
    (project.pictures / "captions" / "moving.txt").write_text("moving")
    expected = write_bad(project.pictures)
    (project.pictures / "images" / "notes.jpg.txt").write_text("no picture")
    (project.pictures / "images" / "table.csv").write_text("a,b")
    project.write_recipe(output={"shard_size": 20, "max_reject_rate": 1})
    return expected


def diffprep(project: "ProjectFolder", *arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, [*arguments, "--project", str(project.folder)])
    return result.exit_code, result.output


def test_one_of_each_bad_kind_among_fifty_good_pictures(
    project: "ProjectFolder", mixed: dict[str, str]
) -> None:
    code, shown = diffprep(project, "run", "set")
    assert code == 0, shown
    rejects = {reject.source_key: reject for reject in read_rejects(project.layout().rejects)}
    assert {key: reject.code for key, reject in rejects.items()} == mixed
    counts = json.loads(project.layout().dataset_json.read_bytes())["counts"]
    assert (counts["listed"], counts["written"]) == (50 + len(mixed), 50)
    assert counts["listed"] == counts["written"] + counts["rejected"]
    # The report names every kind and the first few of each.
    assert f"{len(mixed)} of {50 + len(mixed)} samples rejected:" in shown
    for reason in set(mixed.values()):
        named = [key for key, found in mixed.items() if found == reason]
        assert f"  {reason} {len(named)}\n" in shown
        assert sum(key in shown for key in named) == min(3, len(named))
    assert "50 samples, valid, in" in shown
    assert "first of N frames taken 1" in shown
    assert "Other files of the source, not read: .csv 1, .txt without a picture 1" in shown
    # The rest is one command away.
    code, listed = diffprep(project, "rejects", "set")
    assert code == 0
    assert len(listed.splitlines()) == len(mixed)
    assert all(key in listed for key in mixed)
    code, listed = diffprep(project, "rejects", "set", "--reason", "no_caption", "--json")
    content = json.loads(listed)["rejects"]
    assert {row["source_key"] for row in content} == {"images/silent.png", "images/blank.png"}
    assert {row["stage"] for row in content} == {"bucket"}
    code, refused = diffprep(project, "rejects", "set", "--reason", "no_captions")
    assert (code, "did you mean no_caption?" in refused) == (2, True)
