"""The project that a reader of the README has made, and how a line of the docs is run in it."""

import gc
import os
import re
import shlex
import subprocess
import sys
import tarfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from PIL import Image
from typer.testing import CliRunner

from diffprep_assets.cli import app
from diffprep_resources.demo.build import build_demo
from diffprep_resources.demo.clips import draw_clips
from diffprep_resources.demo.pictures import draw_pictures
from diffprep_resources.demo.wan import build_tiny_wan

if TYPE_CHECKING:
    from tests.docs.test_blocks import Block

NUM_PICTURES = 6
NUM_DRAWN = 30
NUM_CLIPS = 5
SHELL = re.compile(r"\$\(|[|<>;`]|&&")

# The one thing that a test cannot have: the encoders of the Hub. The demo's stand in for them.
HUB_ENCODERS = "black-forest-labs/FLUX.1-dev"
TINY_ENCODERS = "data/demo/encoders"
TINY_WAN = "data/wan"
# And what a test has no time for: clips of the size that a trainer wants.
SMALL_CLIPS = {"max_width": 64, "max_height": 32, "num_frames": 17}

# What stands for the reader's own word in a command.
PLACEHOLDERS = {"NAME": "photos", "PATH": "data/photos"}

# Options that a command needs since there is no Hub here.
ADDED = {"diffprep init photos --from ../photos": f" --model {TINY_ENCODERS}"}


@dataclass
class Reader:
    """Someone who types what the docs say. `folder` is where he is now."""

    start: Path
    project: Path
    folder: Path
    times: dict[str, float] = field(default_factory=dict)

    def type(self, line: str) -> None:
        """Run one line, unless he typed the same before; raises AssertionError with its output
        when it does not end well."""
        for word, meant in PLACEHOLDERS.items():
            line = re.sub(rf"\b{word}\b", meant, line)
        line += ADDED.get(line, "")
        if line in self.times and not line.startswith("cd "):
            return
        begin = time.monotonic()
        self._run(line)
        self.times[line] = time.monotonic() - begin

    def _run(self, line: str) -> None:
        words = shlex.split(line, comments=True)
        if words[0] == "cd":
            self.folder = (self.folder / words[1]).resolve()
            assert self.folder.is_dir(), line
        elif words[0] == "diffprep" and not SHELL.search(line):
            self._in_process(line, words[1:])
        else:
            self._in_shell(line)

    def _in_process(self, line: str, words: list[str]) -> None:
        os.chdir(self.folder)
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, f"{line}\n{result.output[-3000:]}"

    def _in_shell(self, line: str) -> None:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-euc", line],
            cwd=self.folder,
            env={**os.environ, "PATH": path, "PWD": str(self.folder)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{line}\n{(done.stdout + done.stderr)[-3000:]}"

    def write_recipe(self, block: "Block") -> None:
        """Where a block is a recipe whose file the text before it names, that file, unless it is
        there already."""
        named = re.findall(r"`recipes/([\w-]+)\.yaml`", block.before)
        path = self.project / "recipes" / f"{named[-1] if named else ''}.yaml"
        if named and not path.exists():
            content = yaml.safe_load(block.text)
            model = content.setdefault("model", {})
            if "video" in content:
                model.update(model_path=TINY_WAN, t5_max_length=64)
                content["video"].update(SMALL_CLIPS)
            elif model.get("model_path", HUB_ENCODERS) == HUB_ENCODERS:
                model.update(model_path=TINY_ENCODERS, t5_max_length=64)
            path.write_text(yaml.safe_dump(content), "utf-8")


@pytest.fixture
def newcomer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Reader:
    """In an empty project."""
    plain_environment(monkeypatch)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dagster_project.toml").touch()
    return Reader(tmp_path, tmp_path, tmp_path)


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Reader:
    """In his project `my_project`, beside a folder `photos` of his own; the demo has run, and
    data/clips holds clips. The demo's pictures were thinned out, which `diffprep demo` leaves as it
    is."""
    plain_environment(monkeypatch)
    monkeypatch.chdir(tmp_path)
    # Energon collects garbage twice a pass: 0.25 s over all that the tests' imports left.
    monkeypatch.setattr(gc, "collect", lambda *_: 0)
    start = tmp_path / "reader"
    sources_of_the_reader(start)
    project = start / "my_project"
    reader = Reader(start, project, start)
    reader.type("diffprep new my_project")
    thinned_demo(project / "data" / "demo")
    draw_clips(project / "data" / "clips", count=NUM_CLIPS)
    build_tiny_wan(project / TINY_WAN)
    reader.type("cd my_project")
    reader.type("diffprep demo")
    return reader


def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No project and no home of Dagster's named, and what a command sets is taken back."""
    for name in ("DAGSTER_HOME", "DAGSTER_EMIT_PARTITION_SUBSET_IN_PLANNED_EVENTS"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.delenv("DIFFPREP_PROJECT", raising=False)
    monkeypatch.setenv("COLUMNS", "200")


def sources_of_the_reader(start: Path) -> None:
    """`photos`, small squares, and the same as tars in `shards` and as rows in `hub_copy`."""
    photos = start / "photos"
    draw_pictures(photos, count=NUM_PICTURES, seed=1)
    for path in (photos / "images").iterdir():
        with Image.open(path) as picture:
            small = picture.resize((256, 256))
        small.save(path)
    (start / "shards").mkdir()
    rows: dict[str, list[Any]] = {"image": [], "text": []}
    with tarfile.open(start / "shards" / "00000.tar", "w") as tar:
        for picture in sorted((photos / "images").iterdir()):
            caption = photos / "captions" / f"{picture.stem}.txt"
            tar.add(picture, picture.name)
            tar.add(caption, caption.name)
            rows["image"].append({"bytes": picture.read_bytes(), "path": picture.name})
            rows["text"].append(caption.read_text("utf-8"))
    data = start / "hub_copy" / "data"
    data.mkdir(parents=True)
    pq.write_table(pa.table(rows), data / "train-00000-of-00001.parquet")


def thinned_demo(folder: Path) -> None:
    """The demo's folders, from which all but a few square pictures were deleted: one shard."""
    made = build_demo(folder, count=NUM_DRAWN)
    for path in (made.pictures / "images").iterdir():
        with Image.open(path) as picture:
            if picture.width != picture.height:
                path.unlink()
    marker = next(made.pictures.glob(".*.json"))
    marker.write_text(marker.read_text("utf-8").replace(f": {NUM_DRAWN}", ": 240"), "utf-8")
