"""Whether one raw sample's members hold a picture that a trainer can train on."""

import io
from collections.abc import Mapping

from PIL import Image

from diffprep_assets.validate.samples import (
    Profile,
    SampleFindings,
    caption_problems,
    json_member,
)
from diffprep_resources.pictures.quiet import quiet_pillow
from diffprep_resources.pictures.stored import IMAGE_FORMATS

PILLOW_NAMES = {"jpg": "JPEG", "png": "PNG", "webp": "WEBP"}


def inspect_picture(members: Mapping[str, bytes], *, ours: bool) -> SampleFindings:
    """Findings for the members (by name without key) of one raw sample; `ours` asks for all of them
    and for the picture as it is stored here: upright RGB of the size that the json member says."""
    names = [name for name in IMAGE_FORMATS if name in members]
    problems = [] if names else [f"no member {', '.join(IMAGE_FORMATS)}"]
    if len(names) > 1:
        problems.append(f"pictures {', '.join(names)}: readers take one of them")
    wanted = ("txt", "json") if ours else ("txt",)
    problems += [f"member {name} is missing" for name in wanted if name not in members]
    metadata = json_member(members, problems, ours=ours)
    problems += caption_problems(members, "txt")
    shape: tuple[int, ...] = ()
    if names:
        shape, found = _look(names[0], members[names[0]], ours=ours)
        problems += found or _size_problems(shape, metadata)
    profile = None if problems else Profile(tuple(sorted(members)))
    return SampleFindings(tuple(problems), profile, shape, metadata)


def _look(name: str, data: bytes, *, ours: bool) -> tuple[tuple[int, int, int], list[str]]:
    """(3, height, width) of the decoded picture, and what is wrong with it."""
    try:
        with quiet_pillow(), Image.open(io.BytesIO(data)) as image:
            image.load()
            turned = image.getexif().get(0x0112, 1) != 1
    except Exception as error:  # Pillow raises many types
        return (3, 0, 0), [f"{name} cannot be decoded: {type(error).__name__} {error}"]
    problems = []
    if image.format != PILLOW_NAMES[name]:
        problems.append(f"{name} holds a {image.format}")
    if turned:
        problems.append(f"{name} carries an EXIF turn, which readers do not apply")
    if ours and image.mode != "RGB":
        problems.append(f"{name} must be RGB, got mode {image.mode}")
    return (3, image.height, image.width), problems


def _size_problems(shape: tuple[int, ...], metadata: Mapping[str, object] | None) -> list[str]:
    if metadata is None or "width" not in metadata or "height" not in metadata:
        return []
    said = (metadata["width"], metadata["height"])
    if said == (shape[2], shape[1]):
        return []
    return [f"json says {said[0]}x{said[1]} pixels, the picture is {shape[2]}x{shape[1]}"]
