"""`diffprep info`: ours, another tool's, and folders that hold none."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from typer.testing import CliRunner, Result

from diffprep_assets.cli import app
from tests.conftest import draw, write_tar

if TYPE_CHECKING:
    from tests.conftest import ProjectFolder

Info = Callable[..., Result]


@pytest.fixture
def info(project: "ProjectFolder", monkeypatch: pytest.MonkeyPatch) -> Info:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(project.folder)

    def invoke(*words: object, code: int = 0) -> Result:
        result = CliRunner().invoke(app, ["info", *map(str, words)])
        assert result.exit_code == code, result.output + repr(result.exception)
        return result

    return invoke


def other_dataset(folder: Path) -> None:
    """An energon dataset of pictures, as `energon prepare` leaves it, less its index."""
    drawings = [draw(number) for number in range(3)]
    members = {}
    for drawing in drawings:
        members |= {drawing.name: drawing.data, f"{drawing.stem}.txt": b"some words"}
    write_tar(folder / "a.tar", members)
    (folder / "a.tar.idx").write_bytes(bytes(32))
    meta = folder / ".nv-meta"
    meta.mkdir()
    content = {"__module__": "megatron.energon", "__class__": "CaptioningWebdataset"}
    (meta / "dataset.yaml").write_text(yaml.safe_dump(content))
    (meta / "split.yaml").write_text(yaml.safe_dump({"split_parts": {"train": ["a.tar"]}}))
    (meta / ".info.json").write_text(json.dumps({"shard_counts": {"a.tar": 3}}))


def test_a_dataset_of_ours_says_what_it_is(project: "ProjectFolder", info: Info):
    project.write_pictures(range(5))
    (project.pictures / "captions" / "p004.txt").unlink()
    project.write_recipe(output={"train_split": 0.5})
    project.run()
    found = json.loads(info("set", "--json").stdout)
    assert found == json.loads(info(project.folder / "out" / "set", "--json").stdout)
    assert (found["dataset"], found["encoding"]) == ("set", "preencoded")
    assert (found["samples"], found["listed"]) == (4, 5)
    assert found["rejects"] == {"no_caption": 1}
    assert found["splits"]["train"] == {"samples": 2, "share": 0.5}
    assert found["members"]["latents.pth"]["shape"] == [16, 8, 8]
    assert found["members"]["prompt_embeds.pth"]["dtype"] == "float32"
    tars = list((project.folder / "out" / "set").glob("*.tar"))
    assert found["size_bytes"] == sum(tar.stat().st_size for tar in tars)
    captions = [draw(number).caption.encode() for number in range(4)]
    assert found["caption_bytes"]["longest"] == max(map(len, captions))
    assert found["caption_bytes"]["captions"] == 4
    assert found["provenance"]["models"].keys() == {"vae", "t5", "clip"}
    assert found["validity"]["state"] == "valid"
    assert found["problems"] == []
    compile(found["load"], "load", "exec")
    shown = info("set").stdout
    for words in ("valid, checked", "no_caption 1", "float32 [16, 8, 8]", "get_train_dataset"):
        assert words in shown

    tars[0].touch()
    assert json.loads(info("set", "--json").stdout)["validity"]["state"] == "changed"


def test_a_dataset_of_another_tool_is_told_too(tmp_path: Path, info: Info):
    folder = tmp_path / "other"
    other_dataset(folder)
    found = json.loads(info(folder, "--json").stdout)
    assert (found["dataset"], found["kind"]) == (None, "CaptioningWebdataset")
    assert (found["samples"], found["splits"]["train"]["share"]) == (3, 1)
    assert found["members"]["txt"]["content"] == '"some words"'
    assert found["members"]["jpg"]["content"] == "JPEG 150 x 100"
    assert found["validity"]["state"] == "unknown"
    assert "task_encoder of the tool" in found["load"]
    compile(found["load"], "load", "exec")
    assert "by another tool, CaptioningWebdataset" in info(folder).stdout


def test_tars_without_metadata_are_looked_into(tmp_path: Path, info: Info):
    write_tar(tmp_path / "tars" / "a.tar", {"1.txt": b"words"})
    found = json.loads(info(tmp_path / "tars", "--json").stdout)
    assert (found["samples"], found["shards"]) == (None, 1)
    assert found["members"].keys() == {"txt"}


def test_a_broken_folder_is_an_error_that_says_what_is_wrong(tmp_path: Path, info: Info):
    folder = tmp_path / "other"
    other_dataset(folder)
    (folder / "a.tar").unlink()
    broken = json.loads(info(folder, "--json", code=1).stdout)
    assert any("a.tar is missing" in problem for problem in broken["problems"])
    (folder / ".nv-meta" / ".info.json").write_text("{")
    assert "holds no dataset that can be read: .info.json" in info(folder, code=1).stderr
    (tmp_path / "empty").mkdir()
    assert "no tar and no .nv-meta" in info(tmp_path / "empty", code=1).stderr
    assert "no folder" in info("none", code=2).stderr
    assert "there is none at" in info(tmp_path / "none", code=2).stderr
