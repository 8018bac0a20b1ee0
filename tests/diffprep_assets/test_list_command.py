"""`diffprep list`: the state of every dataset, by small files."""

import json
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from typer.testing import CliRunner

from diffprep_assets.cli import app
from diffprep_resources.storage.locks import hold
from tests.conftest import draw

if TYPE_CHECKING:
    from tests.conftest import ProjectFolder

Listed = Callable[[], dict[str, Any]]


@pytest.fixture
def listed(project: "ProjectFolder", monkeypatch: pytest.MonkeyPatch) -> Listed:
    """The datasets of `list --json`, by name."""
    monkeypatch.chdir(project.folder)

    def invoke() -> dict[str, Any]:
        result = CliRunner().invoke(app, ["list", "--json"])
        assert result.exit_code == 0, result.output + repr(result.exception)
        return {row["dataset"]: row for row in json.loads(result.stdout)["datasets"]}

    return invoke


def test_a_dataset_through_its_life(project: "ProjectFolder", listed: Listed):
    project.write_pictures(range(5))
    project.write_recipe()
    row = listed()["set"]
    assert (row["state"], row["why"], row["samples"]) == ("missing", ["never made"], None)
    assert (row["made"], row["output_bytes"], row["work_bytes"]) == (None, 0, 0)

    project.run()
    layout = project.layout()
    row = listed()["set"]
    assert (row["state"], row["why"]) == ("fresh", [])
    assert (row["samples"], row["shards"]) == (5, 2)
    files = [path for path in layout.output_dir.rglob("*") if path.is_file()]
    assert row["output_bytes"] == sum(path.stat().st_size for path in files)
    # The tars have a name in both folders, and are counted once.
    tars = sum(path.stat().st_size for path in files if path.suffix == ".tar")
    whole = [path for path in layout.folder.rglob("*") if path.is_file()]
    assert row["work_bytes"] == sum(path.stat().st_size for path in whole) - tars
    assert row["made"][:4] == time.strftime("%Y")

    project.write_recipe(output={"shard_size": 3})
    assert listed()["set"]["why"] == ["output.shard_size 4 -> 3"]
    project.write_recipe()
    project.write_pictures([7])
    os.utime(project.pictures / "images" / "p000.jpg", (1, 1))
    row = listed()["set"]
    assert row["state"] == "stale"
    assert row["why"] == ["1 source file added", "1 source file changed"]

    (layout.output_dir / "000000.tar").unlink()
    assert "files of the output folder changed" in listed()["set"]["why"]
    with hold(layout.run_lock, holder="diffprep run set"):
        row = listed()["set"]
    assert row["state"] == "running"
    assert row["why"][0].startswith("held by diffprep run set (process ")


def test_a_failed_run_shows_until_it_ends_well(project: "ProjectFolder", listed: Listed):
    project.write_pictures(range(3))
    project.write_recipe()
    for path in (project.pictures / "images").iterdir():
        path.write_bytes(b"no picture")
    assert project.run().error is not None
    row = listed()["set"]
    assert row["state"] == "failed"
    assert row["why"][0].startswith("shard_plan: ")
    project.write_pictures(range(3))
    assert project.run().error is None
    assert listed()["set"]["state"] == "fresh"
    assert not project.layout().last_failure.exists()


def test_broken_recipes_and_datasets_without_one_are_listed_too(
    project: "ProjectFolder", listed: Listed
):
    path = project.write_recipe("bad", output={"shardsize": 3})
    left = project.folder / "work" / "left"
    left.mkdir(parents=True)
    (left / "owner.json").write_text(json.dumps({"recipe": "left", "output_dir": "/none"}))
    (project.folder / "work" / "not_ours").mkdir()
    rows = listed()
    assert list(rows) == ["bad", "left"]
    assert rows["bad"]["state"] == "broken"
    line = next(n for n, text in enumerate(path.read_text().splitlines(), 1) if "shardsize" in text)
    assert f"{path}, line {line}: output.shardsize" in rows["bad"]["why"][0]
    assert rows["left"]["state"] == "no recipe"
    shown = CliRunner().invoke(app, ["list"]).stdout
    assert "\x1b" not in shown
    assert "bad" in shown


def test_fifty_datasets_are_listed_quickly(project: "ProjectFolder", listed: Listed):
    project.write_pictures(range(2))
    project.write_recipe("d00")
    project.run("d00")
    recipe = yaml.safe_load((project.folder / "recipes" / "d00.yaml").read_text())
    work = project.folder / "work"
    for number in range(1, 50):
        name = f"d{number:02d}"
        recipe["output"]["output_dir"] = f"out/{name}"
        (project.folder / "recipes" / f"{name}.yaml").write_text(yaml.safe_dump(recipe))
        (work / name).mkdir()
        for file in ("shards.parquet", "shard_plan.parquet", "source_index.parquet"):
            (work / name / file).write_bytes((work / "d00" / file).read_bytes())
    started = time.process_time()
    rows = listed()
    assert time.process_time() - started < 2
    assert len(rows) == 50
    assert rows["d49"]["why"] == [
        "2 source files added",
        "1 of 1 shard not written",
        "not published",
    ]


def test_source_files_beyond_a_bound_are_not_looked_at(project: "ProjectFolder"):
    from diffprep_assets.dataset_state import FilesToLookAt, dataset_state
    from diffprep_assets.shard_plan.table import read_shards

    project.write_pictures(range(2))
    project.write_recipe()
    project.run()
    (project.pictures / "images" / "p009.jpg").write_bytes(draw(9).data)
    dataset = project.dataset()
    shards = read_shards(dataset.layout.shards)
    assert dataset_state(dataset, shards, FilesToLookAt(1)).name == "fresh"
    assert dataset_state(dataset, shards, FilesToLookAt(2)).name == "stale"
