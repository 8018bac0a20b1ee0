"""`diffprep clean`: what goes is what was said, and the next run works."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest
from typer.testing import CliRunner, Result

from diffprep_assets.cli import app
from diffprep_assets.run_report import RunReport
from diffprep_resources.storage.locks import hold

if TYPE_CHECKING:
    from tests.conftest import ProjectFolder

Clean = Callable[..., Result]


@pytest.fixture
def clean(project: "ProjectFolder", monkeypatch: pytest.MonkeyPatch) -> Clean:
    """Runs `diffprep clean set ...` in the project's folder; nobody can be asked."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(project.folder)

    def invoke(*options: str, code: int = 0, name: str = "set") -> Result:
        result = CliRunner().invoke(app, ["clean", name, *options])
        assert result.exit_code == code, result.output + repr(result.exception)
        return result

    return invoke


def kinds(clean: Clean, *options: str) -> dict[str, Any]:
    return json.loads(clean(*options, "--json").stdout)["kinds"]


def files(folder: Path) -> set[Path]:
    """Every file but locks and Dagster's own."""
    found = {path for path in folder.rglob("*") if path.is_file() or path.is_symlink()}
    return {path for path in found if not {".locks", ".dagster"} & set(path.parts)}


def encoded(report: RunReport) -> int:
    stages = ("encode_latents", "encode_text")
    return sum(report.summaries[stage].samples.encoded for stage in stages)


def partitions(name: str) -> tuple[list[str], list[str]]:
    with dg.DagsterInstance.get() as instance:
        parts, shards = (f"{name}_{unit}" for unit in ("parts", "shards"))
        return (
            list(instance.get_dynamic_partitions(parts)),
            list(instance.get_dynamic_partitions(shards)),
        )


def test_intermediates_go_and_nothing_is_encoded_again(project: "ProjectFolder", clean: Clean):
    project.write_pictures(range(5))
    project.write_recipe(output={"intermediates": "keep"})
    project.run()
    layout, before = project.layout(), files(project.folder)
    rows = {path for path in before if path.suffix == ".safetensors"} & files(layout.folder)
    rows -= {layout.empty_encodings}
    said = kinds(clean)["intermediates"]
    assert (said["files"], said["chosen"]) == (len(rows), False)
    assert said["bytes"] == sum(path.stat().st_size for path in rows) > 0
    assert files(project.folder) == before

    assert "would remove 4 files" in clean("--intermediates", "--dry-run").stdout
    assert files(project.folder) == before
    clean("--intermediates")
    assert files(project.folder) == before - rows
    report = project.run()
    assert report.ok
    assert encoded(report) == 0


def test_rows_of_unfinished_shards_stay(project: "ProjectFolder", clean: Clean):
    project.write_pictures(range(5))
    project.write_recipe(output={"intermediates": "keep"})
    project.run()
    layout = project.layout()
    shard = min(layout.shard_file("x").parent.glob("*.tar"))
    shard.unlink()
    clean("--intermediates")
    kept = {path.stem for path in layout.latents("x").parent.glob("*.safetensors")}
    assert kept == {shard.stem}
    report = project.run()
    assert (report.ok, encoded(report)) == (True, 0)


def test_old_generations_go_with_what_killed_runs_left(project: "ProjectFolder", clean: Clean):
    project.write_pictures(range(5))
    project.write_recipe()
    project.run()
    layout, before = project.layout(), files(project.folder)
    old = [
        layout.shard_file("g9-64-64x64-000001"),
        layout.shard_record("g9-64-64x64-000001"),
        layout.latents("g9-64-64x64-000001"),
        layout.shard_file("x").parent / ".writing-x.tar-0123",
    ]
    for path in old:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"old")
    with dg.DagsterInstance.get() as instance:
        instance.add_dynamic_partitions("set_shards", ["g9-64-64x64-000001"])
    said = kinds(clean, "--old-generations")["old_generations"]
    assert (said["files"], said["bytes"], said["note"]) == (4, 12, "")
    assert files(project.folder) == before
    _, shards = partitions("set")
    assert shards == sorted(path.stem for path in layout.shard_file("x").parent.glob("*.tar"))
    assert encoded(project.run()) == 0


def test_old_rows_that_the_next_run_would_use_are_told(project: "ProjectFolder", clean: Clean):
    project.write_pictures(range(5))
    project.write_recipe()
    project.run()
    for path in project.layout().shard_file("x").parent.glob("*-000001.*"):
        path.rename(path.with_name(path.name.replace("000001", "000009")))
    note = kinds(clean)["old_generations"]["note"]
    assert note.startswith("1 shard of the plan not written yet")


def test_all_goes_but_what_is_not_of_the_dataset(project: "ProjectFolder", clean: Clean):
    project.write_pictures(range(3))
    project.write_recipe()
    project.run()
    layout = project.layout()
    outside = project.folder / "precious"
    outside.mkdir()
    (outside / "file").write_text("x")
    (layout.folder / "link").symlink_to(outside)
    (layout.output_dir / "mine.txt").write_text("mine")
    others = files(project.folder) - files(layout.folder) - files(layout.output_dir)

    refused = clean("--all", code=2)
    assert "say --yes" in refused.stderr
    assert layout.dataset_json.exists()
    assert "would remove" in clean("--all", "--dry-run").stdout
    done = clean("--all", "--yes")
    assert "1 other file there stay" in done.stdout
    assert not os.path.lexists(layout.folder)
    assert files(project.folder) == others | {layout.output_dir / "mine.txt"}
    assert partitions("set") == ([], [])

    (layout.output_dir / "mine.txt").unlink()
    report = project.run()
    assert (report.ok, report.written, encoded(report)) == (True, 3, 6)


def test_a_link_in_place_of_a_folder_is_not_followed(project: "ProjectFolder", clean: Clean):
    project.write_pictures(range(3))
    project.write_recipe(output={"intermediates": "keep"})
    project.run()
    layout = project.layout()
    folder = layout.latents("x").parent
    folder.rename(project.folder / "elsewhere")
    folder.symlink_to(project.folder / "elsewhere")
    kept = files(project.folder / "elsewhere")
    clean("--intermediates", "--old-generations")
    clean("--all", "--yes")
    assert files(project.folder / "elsewhere") == kept

    layout.folder.symlink_to(project.folder / "elsewhere")
    assert "is a symbolic link" in clean("--all", "--yes", code=2).stderr
    assert files(project.folder / "elsewhere") == kept


def test_a_dataset_in_use_is_left_alone_and_its_holder_named(
    project: "ProjectFolder", clean: Clean
):
    project.write_pictures(range(3))
    project.write_recipe()
    project.run()
    layout, before = project.layout(), files(project.folder)
    for lock in (layout.run_lock, layout.dataset_lock):
        with hold(lock, holder="diffprep run set"):
            assert "held by diffprep run set" in clean("--all", "--yes", code=1).stderr
    assert files(project.folder) == before


def test_what_is_left_of_a_dataset_without_recipe_can_go(project: "ProjectFolder", clean: Clean):
    project.write_pictures(range(3))
    project.write_recipe()
    project.run()
    layout = project.layout()
    (project.folder / "recipes" / "set.yaml").unlink()
    clean("--all", "--yes")
    assert not layout.folder.exists()
    assert not layout.output_dir.exists()
    assert "no recipe set" in clean("--all", "--yes", code=2).stderr


def test_without_a_kind_nothing_goes(project: "ProjectFolder", clean: Clean):
    project.write_pictures(range(3))
    project.write_recipe()
    project.run()
    before = files(project.folder)
    assert "Name what is to go" in clean().stdout
    assert "nothing to remove" in clean("--downloads").stdout
    assert files(project.folder) == before
