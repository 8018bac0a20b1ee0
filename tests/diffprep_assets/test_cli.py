"""The command as people and scripts use it: words, objects on stdout, exit codes."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from diffprep_assets.cli import app
from diffprep_assets.run_report import STAGES

if TYPE_CHECKING:
    from tests.conftest import ProjectFolder

Command = Callable[..., Result]
PARTS = ("download", "bucket")
SHARDS = ("encode_latents", "encode_text", "shard")
# What the README documents of `run --json`, and nothing else.
REPORT_KEYS = {
    *("dataset", "ok", "error", "generation", "recipe_hash", "stages"),
    *("listed", "written", "skipped", "served", "rejects", "output_dir"),
}


@pytest.fixture
def diffprep(project: "ProjectFolder", monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs the command in this process, in the project's folder unless another is given."""
    monkeypatch.setenv("COLUMNS", "400")

    def invoke(*words: object, folder: Path | None = None, code: int = 0) -> Result:
        monkeypatch.chdir(folder or project.folder)
        result = CliRunner().invoke(app, [str(word) for word in words])
        assert result.exit_code == code, result.output + repr(result.exception)
        return result

    return invoke


def one_object(result: Result) -> dict[str, Any]:
    """The single JSON object that stdout must be."""
    assert result.stdout.count("\n") == 1
    return json.loads(result.stdout)


def check_shape(report: dict[str, Any]) -> None:
    """Exactly the documented keys, of the documented types, at every level."""
    assert report.keys() == REPORT_KEYS
    assert isinstance(report["dataset"], str)
    assert isinstance(report["ok"], bool)
    assert report["ok"] == (report["error"] is None)
    if report["error"] is not None:
        assert report["error"].keys() == {"stage", "message"}
        assert all(isinstance(value, str) and value for value in report["error"].values())
    assert tuple(report["stages"]) == STAGES
    for stage, content in report["stages"].items():
        unit = {"parts"} if stage in PARTS else {"shards"} if stage in SHARDS else set()
        assert content.keys() == {*unit, "samples", "seconds"}, stage
        for name in unit:
            assert content[name].keys() == {"done", "fresh", "failed"}
        samples = content["samples"]
        assert samples.keys() == {"in", "out", "encoded", "reused", "rejected"}
        assert all(type(count) is int for count in samples.values())
        assert samples["in"] == samples["out"] + samples["rejected"], stage
    for name in ("listed", "written"):
        assert type(report[name]) is int
    assert all(type(count) is int for count in report["rejects"].values())


# -- run ------------------------------------------------------------------------------------


def test_run_prints_one_object_and_counts_add_up_with_a_reject_too(
    project: "ProjectFolder", diffprep: Command
):
    project.write_pictures(range(5))
    (project.pictures / "images" / "bad.jpg").write_bytes(b"<html>no picture</html>")
    (project.pictures / "captions" / "bad.txt").write_text("a caption")
    project.write_pictures([5])
    (project.pictures / "captions" / "p005.txt").unlink()
    project.write_recipe()
    # Rejects alone do not make the exit code 1.
    report = one_object(diffprep("run", "set", "--json"))
    check_shape(report)
    assert report["ok"] is True
    assert (report["listed"], report["written"], report["generation"]) == (7, 5, 0)
    assert report["rejects"] == {"no_caption": 1, "unreadable_image": 1}
    assert report["listed"] == report["written"] + sum(report["rejects"].values())
    assert report["output_dir"] == str(project.folder / "out" / "set")
    assert report["stages"]["shard"]["shards"] == {"done": 2, "fresh": 0, "failed": 0}
    assert report["stages"]["bucket"]["samples"]["rejected"] == 2

    # For people the same as a table, and words for what was left out; now all is fresh.
    result = diffprep("run", "set")
    assert "All is fresh: nothing was encoded" in result.stdout
    assert "2 of 7 samples rejected" in result.stdout
    assert "no_caption 1" in result.stdout
    assert "unreadable_image 1" in result.stdout
    assert "5 samples, valid, in" in result.stdout

    status = one_object(diffprep("status", "set", "--json"))
    assert status.keys() == {"dataset", "stages"}
    assert tuple(status["stages"]) == STAGES
    for stage, row in status["stages"].items():
        assert row.keys() == {"fresh", "stale", "missing", "failed", "why"}
        fresh = 2 if stage in SHARDS else 1
        assert row == {"fresh": fresh, "stale": 0, "missing": 0, "failed": 0, "why": []}
    shown = diffprep("status", "set").stdout
    assert all(stage in shown for stage in STAGES)

    assert diffprep("range", "set", "parts").stdout == "p00000...p00000\n"
    shards = "g0-64-64x64-000000...g0-64-64x64-000001\n"
    assert diffprep("range", project.folder / "recipes" / "set.yaml", "shards").stdout == shards


def test_every_sample_rejected_is_a_clean_failure(project: "ProjectFolder", diffprep: Command):
    project.write_pictures(range(3))
    for path in (project.pictures / "captions").iterdir():
        path.unlink()
    project.write_recipe()
    result = diffprep("run", "set", "--json", code=1)
    report = one_object(result)
    check_shape(report)
    assert report["error"]["stage"] == "shard_plan"
    assert report["error"]["message"].startswith("set: 0 samples to write: 3 listed, all rejected")
    assert "no_caption 3" in report["error"]["message"]
    assert (report["listed"], report["written"]) == (3, 0)
    assert report["rejects"] == {"no_caption": 3}
    assert "0 samples" in result.stderr
    assert not list(project.folder.rglob("*.tar"))
    assert "Traceback" not in result.output


def test_a_source_without_pictures_is_a_clean_failure(project: "ProjectFolder", diffprep: Command):
    project.pictures.mkdir()
    project.write_recipe()
    result = diffprep("run", "set", "--json", code=1)
    report = one_object(result)
    check_shape(report)
    assert report["error"]["stage"] == "source_index"
    assert "set.yaml: source.input_dir (pictures)" in report["error"]["message"]
    assert "holds no" in report["error"]["message"]
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("recipe", "name", "words"),
    [
        ({}, "sett", ["no recipe sett", "did you mean set?"]),
        ({"image": {"image_sise": 64}}, "set", ["set.yaml", "line", "image_sise", "image_size?"]),
        ({"model": {"precision": "fp8"}}, "set", ["model.precision", "fp8", "bf16"]),
        ({"output": {"compress": True}}, "set", ["output.compress"]),
        ({"source": {"type": "directory", "input_dir": "nowhere"}}, "set", ["nowhere"]),
        ({"model": {"model_path": "./nowhere"}}, "set", ["nowhere"]),
    ],
    ids=["unknown", "misspelt", "value", "compress", "source", "model"],
)
def test_what_is_wrong_before_any_work_is_said_on_stderr_and_in_the_object(
    project: "ProjectFolder",
    diffprep: Command,
    recipe: dict[str, Any],
    name: str,
    words: list[str],
):
    project.write_pictures(range(2))
    project.write_recipe(**recipe)
    result = CliRunner().invoke(app, ["run", name, "--json", "--project", str(project.folder)])
    assert result.exit_code in (1, 2)
    report = one_object(result)
    check_shape(report)
    assert report["ok"] is False
    assert report["written"] == 0
    for word in words:
        assert word in report["error"]["message"]
        assert word in result.stderr.replace("\n", "")
    assert "Traceback" not in result.output


def test_set_and_max_samples_act_as_if_the_file_said_so_and_say_what_a_plain_run_would_find(
    project: "ProjectFolder", diffprep: Command
):
    project.write_pictures(range(6))
    path = project.write_recipe()
    text = path.read_text()
    words = ("run", "set", "--json", "--max-samples", 3, "--set", "image.image_size=32")
    result = diffprep(*words)
    report = one_object(result)
    assert (report["listed"], report["written"]) == (3, 3)
    resolved = json.loads((project.folder / "out" / "set" / "dataset.json").read_text())["recipe"]
    assert resolved["image"]["image_size"] == 32
    assert resolved["output"]["max_samples"] == 3
    assert path.read_text() == text
    assert "a plain `diffprep run set` would find stale: " in result.stderr
    for stage in ("source_index", "bucket", "shard_plan", "energon_prepare", "validate"):
        assert stage in result.stderr

    refused = diffprep("run", "set", "--json", "--set", "image.image_sise=32", code=2)
    assert "image_sise" in one_object(refused)["error"]["message"]
    assert "--set takes section.key=value" in diffprep("run", "set", "--set", "x", code=2).stderr


def test_a_second_run_stops_at_once_naming_the_first(project: "ProjectFolder", diffprep: Command):
    project.write_pictures(range(2))
    project.write_recipe()
    lock = project.layout().run_lock
    holder = (
        "import sys, pathlib; from diffprep_resources.storage.locks import hold\n"
        "with hold(pathlib.Path(sys.argv[1]), holder='diffprep run set'):\n"
        "    print('held', flush=True); sys.stdin.read()\n"
    )
    first = subprocess.Popen(
        [sys.executable, "-c", holder, lock],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with first:
        assert first.stdout is not None
        assert first.stdout.readline() == "held\n"
        result = diffprep("run", "set", "--json", code=1)
        report = one_object(result)
        check_shape(report)
        message = report["error"]["message"]
        assert f"set is in use: held by diffprep run set (process {first.pid}, since " in message
        assert not project.layout().source_index.exists()
        first.kill()
    assert one_object(diffprep("run", "set", "--json"))["ok"] is True


# -- projects and recipes -------------------------------------------------------------------


def test_a_project_is_found_upward_by_option_and_by_variable_and_a_recipe_by_path(
    project: "ProjectFolder",
    diffprep: Command,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
):
    project.write_recipe()
    deep = project.folder / "some" / "where"
    deep.mkdir(parents=True)
    outside = tmp_path_factory.mktemp("outside")
    elsewhere = outside / "mine.yaml"
    elsewhere.write_bytes((project.folder / "recipes" / "set.yaml").read_bytes())

    whole = diffprep("check", "set").stdout
    assert diffprep("check", "set", folder=deep).stdout == whole
    assert diffprep("check", "set", "--project", project.folder, folder=outside).stdout == whole
    nothing = diffprep("check", "set", folder=outside, code=2)
    assert "no dagster_project.toml" in nothing.stderr
    assert "--project DIR or DIFFPREP_PROJECT" in nothing.stderr
    monkeypatch.setenv("DIFFPREP_PROJECT", str(project.folder))
    assert diffprep("check", "set", folder=outside).stdout == whole
    assert diffprep("check", "mine.yaml", folder=outside).stdout == whole
    assert diffprep("check", elsewhere, folder=deep).stdout == whole


def test_check_prints_the_recipe_resolved_and_refuses_a_wrong_one(
    project: "ProjectFolder", diffprep: Command
):
    project.write_recipe()
    resolved = yaml.safe_load(diffprep("check", "set", "--set", "image.image_size=48").stdout)
    assert resolved["image"]["image_size"] == 48
    assert resolved["image"]["background"] == "#ffffff"
    assert resolved["captions"]["choose"] == "first"
    assert resolved["source"]["input_dir"] == "pictures"
    project.write_recipe_over(captions={"chose": "all"})
    assert "captions.chose" in diffprep("check", "set", code=2).stderr


def test_range_before_anything_was_made_says_what_to_run(
    project: "ProjectFolder", diffprep: Command
):
    project.write_recipe()
    result = diffprep("range", "set", "shards", code=1)
    assert result.stdout == ""
    assert "`dagster asset materialize " in result.stderr
    assert "--select set/shard_plan" in result.stderr


def test_status_of_a_new_recipe_is_all_missing_and_makes_nothing(
    project: "ProjectFolder", diffprep: Command
):
    project.write_pictures(range(2))
    project.write_recipe()
    stages = one_object(diffprep("status", "set", "--json"))["stages"]
    for stage, row in stages.items():
        assert row["fresh"] == row["stale"] == row["failed"] == 0, stage
        # How many shards there will be is not known yet.
        assert row["missing"] == 1 or stage in SHARDS, stage
    assert not project.layout().source_index.exists()


# -- validate -------------------------------------------------------------------------------


def test_validate_exits_0_on_a_good_dataset_and_1_naming_shard_and_key_on_a_bad_one(
    project: "ProjectFolder", diffprep: Command, tmp_path_factory: pytest.TempPathFactory
):
    project.write_pictures(range(3))
    project.write_recipe()
    project.run()
    out = project.layout().output_dir
    anywhere = tmp_path_factory.mktemp("anywhere")
    good = diffprep("validate", out, "--full", folder=anywhere).stdout
    assert "FAIL" not in good
    assert "ok   digests: 3 samples" in good

    tar = out / "000000.tar"
    data = bytearray(tar.read_bytes())
    tar.unlink()
    data[data.index(b"0000000001.caption.txt") + 512] ^= 1
    tar.write_bytes(data)
    bad = diffprep("validate", out, "--full", folder=anywhere, code=1).stdout
    assert "FAIL digests" in bad
    assert "000000.tar/0000000001" in bad
    assert "must be one of" in diffprep("validate", out, "--encoding", "x", code=2).stderr
    assert "no" in diffprep("validate", anywhere / "none", code=2).stderr


# -- as a program ---------------------------------------------------------------------------


def test_the_program_shows_no_bars_and_keeps_stdout_for_the_object(project: "ProjectFolder"):
    """As a script calls it: in a locale without UTF-8, with stdin closed, from nothing."""
    project.write_pictures(range(2))
    project.write_recipe()
    program = Path(sys.executable).with_name("diffprep")
    kept = {"PATH", "PYTHONPATH", "HOME", "OMP_NUM_THREADS", "TMPDIR"}
    environment = {name: value for name, value in os.environ.items() if name in kept}
    done = subprocess.run(
        [program, "run", "set", "--json"],
        cwd=project.folder,
        env={**environment, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    check_shape(json.loads(done.stdout))
    # Plain lines, one or two a stage, that no script has to look at.
    lines = done.stderr.decode("ascii").splitlines()
    assert {line.split(":")[0] for line in lines} == set(STAGES)
    assert "\x1b" not in done.stderr.decode()
    with_caption = json.loads(done.stdout)
    assert with_caption["written"] == 2
