"""`diffprep init` on sources of clips: what it says, and the recipe that it writes."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from diffprep_assets.cli import app
from diffprep_assets.recipe.load import load_recipe
from tests.cases.clip_files import clip
from tests.cases.looking import put
from tests.conftest import write_tar


@pytest.fixture(scope="module")
def wide() -> bytes:
    """Two seconds, 160 by 96."""
    return clip(frames=48, width=160, height=96)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project's folder, which is the working folder."""
    (tmp_path / "dagster_project.toml").write_text("")
    (tmp_path / "recipes").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def init(source: str, *options: str) -> Any:
    return CliRunner().invoke(app, ["init", "set", "--from", source, *options, "--json"])


def test_a_merged_folder_gets_a_recipe_that_its_clips_fill(folder: Path, wide: bytes) -> None:
    table = [{"path": f"{number}.mp4", "cap": [f"clip {number}"]} for number in range(4)]
    files = {f"clips/videos/{number}.mp4": wide for number in range(3)}
    put(folder, {**files, "clips/videos/3.mp4": clip(frames=6), "clips/videos2caption.json": table})
    seen = json.loads(init("clips").stdout)
    assert seen["source"] == {"type": "directory", "input_dir": "clips"}
    assert (seen["kind"], seen["samples"]) == ("clips", 4)
    assert seen["captions"]["places"] == {"videos2caption.json": 4}
    video = {"workload": "t2v", "max_width": 160, "max_height": 96, "num_frames": 5}
    assert seen["settings"]["video"] == {**video, "train_fps": 16}
    assert "1 of 4 looked at would be rejected as video_too_short" in seen["odd"]
    recipe = load_recipe(folder / "recipes/set.yaml", base=folder).recipe
    assert recipe.video is not None
    assert recipe.output.formats == ("fastvideo",)


@pytest.mark.parametrize("kind", ["tar", "parquet"])
def test_packed_clips_are_told_from_pictures(folder: Path, wide: bytes, kind: str) -> None:
    if kind == "tar":
        write_tar(folder / "a.tar", {"0.mp4": wide, "0.txt": b"one", "0.jpg": b"thumbnail"})
    else:
        cells = [{"bytes": wide, "path": None}]
        (folder / "set").mkdir()
        pq.write_table(pa.table({"clip": cells, "alt": ["a long caption"]}), "set/train.parquet")
    made = init({"tar": "a.tar", "parquet": "set"}[kind])
    assert made.exit_code == 0, made.output
    seen = json.loads(made.stdout)
    assert (seen["kind"], seen["looked_at"], seen["rejects"]) == (kind, 1, {})
    assert seen["sizes"]["median"] == [160, 96]
    assert seen["settings"]["video"]["num_frames"] == 29
    assert seen["settings"].get("data_format", {}) == (
        {} if kind == "tar" else {"caption_key": "alt"}
    )


def test_a_folder_of_both_is_read_as_asked(folder: Path, wide: bytes) -> None:
    put(folder, {"both/a.jpg": b"x", "both/b.jpg": b"x", "both/c.mp4": wide, "both/c.txt": "one"})
    refused = init("both", "--pictures")
    assert refused.exit_code != 0
    seen = json.loads(init("both", "--video").stdout)
    assert (seen["kind"], seen["samples"]) == ("clips", 1)
    assert seen["captions"]["places"] == {"*.txt beside the clip": 1}
    put(folder, {"only/c.mp4": wide})
    no_pictures = CliRunner().invoke(app, ["init", "s", "--from", "only", "--pictures"])
    assert "holds no picture" in no_pictures.output
