"""`diffprep plan`: everything up to the plan is run, nothing is encoded, and what it says is so."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from diffprep_assets import plan_command
from diffprep_assets.cli import app
from diffprep_assets.run_report import STAGES
from diffprep_resources.storage.locks import hold

if TYPE_CHECKING:
    from tests.conftest import ProjectFolder

Command = Callable[..., Result]


@pytest.fixture
def plan(project: "ProjectFolder", monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs `diffprep plan set` in this process, without a probe unless another word is given."""
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(project.folder)

    def invoke(*words: object, code: int = 0, name: str = "set") -> Result:
        probe = () if "--probe" in words else ("--no-probe",)
        result = CliRunner().invoke(app, ["plan", name, *map(str, words), *probe])
        assert result.exit_code == code, result.output + repr(result.exception)
        return result

    return invoke


def content(result: Result) -> dict[str, Any]:
    """The one object on stdout."""
    assert result.stdout.count("\n") == 1
    return json.loads(result.stdout)


def codes(planned: dict[str, Any]) -> list[str]:
    return [warning["code"] for warning in planned["warnings"]]


def size_of(folder: Path, *patterns: str) -> int:
    found = {path for pattern in patterns for path in folder.glob(pattern) if path.is_file()}
    return sum(path.stat().st_size for path in found)


def within(value: int, expected: int, share: float) -> bool:
    return abs(value - expected) <= share * expected


def test_the_plan_tells_the_bytes_that_a_run_then_writes(project: "ProjectFolder", plan: Command):
    project.write_pictures(range(12))
    project.write_recipe(
        output={"shard_size": 5, "intermediates": "keep", "train_split": 0.8},
        image={"image_size": 128},
        model={"vae_latent_mode": "resample"},
    )
    planned = content(plan("--json"))
    layout = project.layout()
    assert not list(layout.folder.glob("latents/*"))
    assert not layout.output_dir.exists()
    assert planned["disks"][0]["needed"] > 0
    assert {bucket["to_encode"] for bucket in planned["buckets"]} == {12}
    assert project.run().ok
    sizes = planned["sizes"]
    (output,) = sizes["outputs"]
    assert (output["format"], output["pictures"]) == ("energon", None)
    assert within(output["shards"], size_of(layout.output_dir, "*.tar"), 0.01)
    assert within(sizes["latents"], size_of(layout.folder, "latents/*"), 0.01)
    assert within(sizes["text"], size_of(layout.folder, "text/g*"), 0.05)
    assert within(sizes["output"], size_of(layout.output_dir, "**/*", ".nv-meta/*"), 0.05)
    again = content(plan("--json"))
    assert again["sizes"] == sizes
    assert again["disks"][0]["needed"] == 0
    assert {bucket["to_encode"] for bucket in again["buckets"]} == {0}
    done = content(plan("--json", "--probe"))
    assert done["probe"]["skipped"] == "every shard is made already"


@pytest.mark.parametrize("width", [80, 100])
def test_it_shows_samples_buckets_captions_and_warnings_on_one_screen(
    project: "ProjectFolder", plan: Command, monkeypatch: pytest.MonkeyPatch, width: int
):
    # The command's own console may have taken its width from the environment as it was imported.
    monkeypatch.setattr(plan_command, "out", Console(width=width))
    project.write_pictures(range(9))
    for number in (1, 2):
        caption = project.pictures / "captions" / f"p{number:03d}.txt"
        caption.write_text("the same [bold]caption[/]")
    (project.pictures / "images" / "p003.jpg").write_bytes(b"not a picture")
    (project.pictures / "images" / "notes.pdf").write_bytes(b"%PDF")
    project.write_recipe(output={"shard_size": 4})
    shown = plan("--html", "plan.html", "--batch-size", 3, "--ranks", 2, "--workers", 0).stdout
    assert "9 in, 8 kept (train 8), 1 rejected" in shown
    assert re.search(r"unreadable_image 1 *\n +images/p003.jpg: not a picture", shown)
    assert re.search(
        r"^ +64 +64x64 +8 +100%" if width == 100 else r"^ +64x64 +8 +100%", shown, re.M
    )
    assert re.search(r"T5 +24 ", shown)
    assert "Not timed: --no-probe was given." in shown
    for code in ("W001", "W004", "W005", "W010", "W015"):
        assert code in shown
    assert max(len(line) for line in shown.splitlines()) <= width
    page = Path("plan.html").read_text("utf-8")
    assert not re.findall(r"(?:src|href)=\"(?!data:|#)|url\(|@import|<script", page)
    assert page.count("data:image/jpeg;base64,") == 1
    assert "the same [bold]caption[/]" in page
    assert "images/p003.jpg" in page


def test_set_and_device_are_taken_as_run_takes_them(project: "ProjectFolder", plan: Command):
    project.write_pictures(range(6))
    project.write_recipe()
    planned = content(
        plan("--json", "--probe", "--device", "cpu", "--set", "image.center_crop=true")
    )
    assert planned["ok"] is True
    assert "W001" not in codes(planned)
    probe = planned["probe"]
    assert (probe["device"], probe["batch_size"], probe["failed"]) == ("cpu", 4, None)
    assert set(probe["stages"]) == {"encode_latents", "encode_text", "shard"}
    assert all(stage["seconds"] > 0 for stage in probe["stages"].values())
    assert probe["peak_memory"] < probe["memory_total"]
    assert {model["role"]: model["download"] for model in planned["models"]} == {
        "vae": 0,
        "t5": 0,
        "clip": 0,
    }
    plan("--set", "image.center_crop", code=2)
    plan("--set", "image.centre_crop=true", code=2)


def test_without_encoders_all_that_needs_none_is_planned(project: "ProjectFolder", plan: Command):
    project.write_pictures(range(6))
    project.write_recipe(model={"model_path": "./nowhere"})
    planned = content(plan("--json"))
    assert planned["samples"]["kept"] == 6
    assert (planned["sizes"], planned["captions"]["tokens"]) == (None, {})
    assert "nowhere" in planned["models_error"]
    assert "W011" in codes(planned)
    assert "nowhere" in plan().stdout


def test_a_plan_that_fails_says_why_and_exits_1(project: "ProjectFolder", plan: Command):
    project.write_pictures(range(2))
    for path in (project.pictures / "images").iterdir():
        path.write_bytes(b"junk")
    project.write_recipe()
    failed = content(plan("--json", code=1))
    assert failed["ok"] is False
    assert failed["error"]["stage"] == "shard_plan"
    assert "0 samples to write" in failed["error"]["message"]
    result = plan(code=1)
    assert "2 of 2 samples rejected" in result.stdout
    assert "shard_plan failed" in result.stderr


def test_wrong_use_exits_2_and_a_held_dataset_1(project: "ProjectFolder", plan: Command):
    project.write_pictures(range(2))
    project.write_recipe()
    failed = content(plan("--json", code=2, name="sett"))
    assert failed["error"]["stage"] == "recipe"
    assert "did you mean set" in failed["error"]["message"]
    plan("--batch-size", 0, code=2)
    result = plan("--html", project.folder, code=2)
    assert "names the page to write" in result.stderr
    with hold(project.layout().run_lock, holder="a colleague's run"):
        assert "a colleague's run" in plan(code=1).stderr


def test_json_keys_are_documented_and_no_later_stage_ran(project: "ProjectFolder", plan: Command):
    project.write_pictures(range(3))
    project.write_recipe()
    page = (Path(__file__).parents[2] / "docs" / "plan.md").read_text("utf-8")
    described = set(re.findall(r"`([a-z0-9_]+)`", page))
    planned = content(plan("--json"))
    assert [*planned["seconds"]][:4] == ["source_index", "download", "bucket", "curate"]
    inner = [value for value in planned.values() if isinstance(value, dict)]
    inner += [planned[entry][0] for entry in ("buckets", "models", "disks", "warnings")]
    inner += planned["sizes"]["outputs"]
    keys = set(planned).union(*inner)
    assert keys - described - {*STAGES, "tokens"} == set()
