"""Everything that the demo needs, made once in a folder."""

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from uuid import uuid4

from diffprep_resources.demo.clips import draw_clips
from diffprep_resources.demo.encoders import build_tiny_flux
from diffprep_resources.demo.pictures import draw_pictures
from diffprep_resources.demo.wan import build_tiny_wan
from diffprep_resources.encoders.base import Workload
from diffprep_resources.errors import SettingError
from diffprep_resources.storage import atomic

# Raise it when the pictures or the encoders change.
DEMO_VERSION = 2
# Hidden, so that a directory source does not list it.
MARKER = ".diffprep-demo.json"


@dataclass(frozen=True, slots=True)
class Demo:
    """The demo's two folders, and whether this call made each."""

    pictures: Path
    encoders: Path
    pictures_made: bool
    encoders_made: bool


def build_demo(folder: Path, *, count: int = 240, seed: int = 0) -> Demo:
    """`pictures/` (images/ and captions/) and `encoders/` (a FLUX-like repository) in `folder`.

    Each appears whole or not at all, with a marker in it. What the same version made with the same
    numbers is left as it is, edits included; what another version made is replaced. Raises
    SettingError when a folder there was not made by this function.
    """
    pictures, encoders = folder / "pictures", folder / "encoders"
    made_pictures = _ensure(
        pictures,
        marker={"version": DEMO_VERSION, "seed": seed, "count": count},
        make=lambda target: draw_pictures(target, count=count, seed=seed),
    )
    made_encoders = _ensure(
        encoders,
        marker={"version": DEMO_VERSION, "seed": seed},
        make=lambda target: build_tiny_flux(target, seed=seed),
    )
    return Demo(pictures, encoders, pictures_made=made_pictures, encoders_made=made_encoders)


@dataclass(frozen=True, slots=True)
class VideoDemo:
    """Folders of the demo's clips: FastVideo's merged form, and encoders by workload."""

    clips: Path
    encoders: Mapping[Workload, Path]


def build_video_demo(folder: Path, *, count: int = 24, seed: int = 0) -> VideoDemo:
    """`clips/` and `wan_t2v/`, `wan_i2v/` in `folder`, under the rules of `build_demo`."""
    clips = folder / "clips"
    _ensure(
        clips,
        marker={"version": DEMO_VERSION, "seed": seed, "count": count},
        make=lambda target: draw_clips(target, count=count, seed=seed),
    )
    workloads: tuple[Workload, ...] = ("t2v", "i2v")
    encoders: dict[Workload, Path] = {
        workload: folder / f"wan_{workload}" for workload in workloads
    }
    for workload, target in encoders.items():
        _ensure(
            target,
            marker={"version": DEMO_VERSION, "seed": seed},
            make=partial(build_tiny_wan, workload=workload, seed=seed),
        )
    return VideoDemo(clips, encoders)


def _ensure(folder: Path, *, marker: dict[str, int], make: Callable[[Path], None]) -> bool:
    """Make `folder` unless its marker says that it is made already; whether it was made now."""
    found = _marker(folder)
    if found == marker:
        return False
    if found is None and folder.exists() and any(folder.iterdir()):
        raise SettingError(f"{folder}: it holds files that the demo did not make; move it away")
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = folder.with_name(f"{atomic.TEMPORARY_PREFIX}{folder.name}-{uuid4().hex[:8]}")
    try:
        make(unfinished)
        (unfinished / MARKER).write_text(json.dumps(marker, sort_keys=True), "utf-8")
        if folder.exists():
            shutil.rmtree(folder)
        atomic.commit(unfinished, folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return True


def _marker(folder: Path) -> dict[str, int] | None:
    """What the folder's marker says; None when it has none that can be read."""
    try:
        return json.loads((folder / MARKER).read_text("utf-8"))
    except (OSError, ValueError):
        return None
