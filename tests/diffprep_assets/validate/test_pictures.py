"""What validate says of one raw sample's members."""

import io
import json
from dataclasses import asdict

import pytest
from PIL import Image

from diffprep_assets.shard.members import SampleMetadata, raw_members
from diffprep_assets.validate.pictures import inspect_picture

METADATA = SampleMetadata("a.jpg", 640, 320, 64, 32, 0, 0, 640, 320, "d", "c")


def file_of(kind: str = "JPEG", *, mode: str = "RGB", size: tuple[int, int] = (64, 32)) -> bytes:
    file = io.BytesIO()
    Image.linear_gradient("L").resize(size).convert(mode).save(file, kind)
    return file.getvalue()


def turned() -> bytes:
    exif, file = Image.Exif(), io.BytesIO()
    exif[0x0112] = 6
    Image.new("RGB", (64, 32)).save(file, "JPEG", exif=exif)
    return file.getvalue()


def members(picture: bytes, kind: str = "jpg") -> dict[str, bytes]:
    return dict(raw_members(picture, image_format=kind, caption="c\u00e9", metadata=METADATA))


@pytest.mark.parametrize(("kind", "format"), [("jpg", "JPEG"), ("png", "PNG"), ("webp", "WEBP")])
def test_a_sound_sample_has_no_problem(kind: str, format: str) -> None:
    found = inspect_picture(members(file_of(format), kind), ours=True)
    assert found.problems == ()
    assert found.shape == (3, 32, 64)
    assert found.profile is not None
    assert found.profile.members == tuple(sorted((kind, "txt", "json")))


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"jpg": b"nothing"}, "jpg cannot be decoded"),
        ({"jpg": file_of()[:-100]}, "jpg cannot be decoded"),
        ({"jpg": file_of("PNG")}, "jpg holds a PNG"),
        ({"jpg": file_of(mode="L")}, "jpg must be RGB, got mode L"),
        ({"jpg": file_of(size=(32, 64))}, "json says 64x32 pixels, the picture is 32x64"),
        ({"jpg": turned()}, "jpg carries an EXIF turn"),
        ({"png": file_of("PNG")}, "pictures jpg, png: readers take one of them"),
        ({"jpg": None}, "no member jpg, png, webp"),
        ({"txt": None}, "member txt is missing"),
        ({"json": None}, "member json is missing"),
        ({"txt": b"\xff"}, "txt is not UTF-8"),
        ({"json": b"{"}, "json cannot be read"),
        ({"json": json.dumps({**asdict(METADATA), "width": None}).encode()}, "must hold exactly"),
    ],
)
def test_what_no_trainer_can_use_is_named(changed: dict[str, bytes | None], problem: str) -> None:
    content = {**members(file_of()), **changed}
    whole = {name: data for name, data in content.items() if data is not None}
    found = inspect_picture(whole, ours=True)
    assert problem in " ".join(found.problems)
    assert found.profile is None


def test_another_tools_sample_needs_no_metadata_and_may_be_grey() -> None:
    bare = {"jpg": file_of(mode="L"), "txt": b"c"}
    assert inspect_picture(bare, ours=False).problems == ()
