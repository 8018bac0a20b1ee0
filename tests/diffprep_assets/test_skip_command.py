"""`diffprep skip`, `unskip` and `rewrite`: whom they keep from trainers, and what they leave be."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner, Result

from diffprep_assets.cli import app
from diffprep_assets.layout import Layout
from diffprep_assets.rejects import read_rejects
from diffprep_assets.shard_plan.table import read_plan

if TYPE_CHECKING:
    from tests.conftest import ProjectFolder

Command = Callable[..., Result]


@pytest.fixture
def command(project: "ProjectFolder", monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs a command in the project's folder; nobody can be asked."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(project.folder)

    def invoke(*words: str, code: int = 0) -> Result:
        result = CliRunner().invoke(app, list(words))
        assert result.exit_code == code, result.output + repr(result.exception)
        return result

    return invoke


def shard_files(layout: Layout) -> dict[str, tuple[int, int]]:
    """Inode and mtime of every finished shard."""
    return {
        path.name: (path.stat().st_ino, path.stat().st_mtime_ns)
        for path in layout.shards_folder.glob("*.tar")
    }


def in_shards(layout: Layout) -> dict[str, str | None]:
    """Source keys of the samples in shards, each with the rule by which it is skipped."""
    rows = read_plan(layout.shard_plan).samples
    return {row.sample.source_key: row.skipped for row in rows if row.shard}


def rejected(layout: Layout) -> dict[str, str]:
    return {reject.source_key: reject.code for reject in read_rejects(layout.rejects)}


def num_written(stages: dict[str, Any]) -> int:
    return sum(stage["shards"]["done"] for stage in stages.values() if "shards" in stage)


def test_a_list_skips_what_is_written_until_it_is_forgotten_or_shards_are_rewritten(
    project: "ProjectFolder", command: Command
):
    project.write_pictures(range(9))
    project.write_recipe(output={"formats": ["raw"], "shard_size": 3})
    assert project.run().ok
    layout, rule = project.layout(), "skip_list:bad"
    before = shard_files(layout)

    # Two of three shards' samples by key and id, one that is not written yet, and nothing at all.
    project.write_pictures(range(9, 11))
    Path("bad.txt").write_text("images/p001.jpg\n4\nimages/p009.jpg\nnothing.png\n")
    options = ("--list", "bad.txt", "--reason", "six fingers", "--json")
    found = json.loads(command("skip", "set", *options).stdout)
    assert {name: found[name] for name in ("entries", "samples", "skipped", "left_out")} == {
        "entries": 4,
        "samples": 3,
        "skipped": 2,
        "left_out": 1,
    }
    assert found["unmatched"] == ["nothing.png"]
    assert (found["run"]["listed"], found["run"]["written"]) == (11, 10)
    assert num_written(found["run"]["stages"]) == 1
    assert shard_files(layout).items() >= before.items()
    assert {key for key, by in in_shards(layout).items() if by == rule} == {
        "images/p001.jpg",
        "images/p004.jpg",
    }
    assert rejected(layout) == {"images/p009.jpg": "skip_list"}
    assert "six fingers" in command("unskip", "set").stdout

    assert "3 of its 3 samples are served" in command("unskip", "set", "bad").stdout
    assert shard_files(layout).items() >= before.items()
    assert set(in_shards(layout).values()) == {None}
    assert len(in_shards(layout)) == 11

    assert "Noted" in command("skip", "set", "--list", "bad.txt", "--no-run").stdout
    assert "changed since the last run" in command("rewrite", "set", "--dry-run").stdout
    assert "say --yes, since nobody can be asked" in command("rewrite", "set", code=2).stderr
    found = json.loads(command("rewrite", "set", "--yes", "--json").stdout)
    assert found["run"]["written"] == 8
    assert num_written(found["run"]["stages"]) == 3
    assert not {"images/p001.jpg", "images/p004.jpg", "images/p009.jpg"} & in_shards(layout).keys()
    assert len(rejected(layout)) == 3


def test_what_is_no_list_or_no_name_of_one_is_refused_before_anything_runs(
    project: "ProjectFolder", command: Command
):
    project.write_recipe()
    Path("empty.txt").write_text("# nothing\n")
    assert "holds no entry" in command("skip", "set", "--list", "empty.txt", code=2).stderr
    assert "cannot be read" in command("skip", "set", "--list", "gone.txt", code=2).stderr
    Path("a b.txt").write_text("x\n")
    assert "--name gives it another" in command("skip", "set", "--list", "a b.txt", code=2).stderr
    assert "no stored skip list" in command("unskip", "set", "other", code=2).stderr
    assert not list(project.layout().skip_lists.glob("*"))


def test_a_list_of_the_same_name_takes_the_place_of_the_first(
    project: "ProjectFolder", command: Command
):
    project.write_recipe()
    assert "nothing was planned yet" in command("rewrite", "set", code=1).stderr
    for text in ("a.jpg\nb.jpg\n", "c.jpg\n"):
        Path("bad.txt").write_text(text)
        # Before the first run, a list waits for it.
        assert "Noted" in command("skip", "set", "--list", "bad.txt").stdout
    Path("worse.txt").write_text("d.jpg\n")
    command("skip", "set", "--list", "worse.txt", "--name", "other")
    lists = json.loads(command("unskip", "set", "--json").stdout)["lists"]
    assert {one["list"]: one["entries"] for one in lists} == {"bad": 1, "other": 1}
    command("unskip", "set", "bad", "--no-run")
    lists = json.loads(command("unskip", "set", "--json").stdout)["lists"]
    assert [one["list"] for one in lists] == ["other"]
