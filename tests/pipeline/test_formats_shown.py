"""Raw and MDS outputs: what `plan` foretells, and what `info`, `preview` and `clean` show."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from PIL import Image
from typer.testing import CliRunner

from diffprep_assets.cli import app
from diffprep_assets.curate.skip_files import entry_of, write_stored_list
from diffprep_resources.mds.reader import open_shard, read_index

if TYPE_CHECKING:
    from tests.conftest import ProjectFolder

SHAPES = [[64, 64], [96, 64], [64, 96]]


@pytest.fixture(scope="module")
def made(
    tmp_path_factory: pytest.TempPathFactory, empty_project_in: Callable[..., "ProjectFolder"]
) -> Iterator[tuple["ProjectFolder", dict[str, Any]]]:
    """Ten pictures, one a copy and one banned, as raw and MDS in a table of shapes, and what `plan`
    said before. Runs start in the project's folder."""
    with pytest.MonkeyPatch.context() as patch:
        project = empty_project_in(tmp_path_factory.mktemp("formats"), patch=patch)
        patch.chdir(project.folder)
        patch.setenv("COLUMNS", "160")
        project.write_pictures(range(9))
        for folder, suffix in (("images", "jpg"), ("captions", "txt")):
            source = project.pictures / folder
            (source / f"copy.{suffix}").write_bytes((source / f"p000.{suffix}").read_bytes())
        project.write_recipe(
            output={"formats": ["raw", "mds"], "splits": {"train": 0.8, "val": 0.2}},
            image={"image_size": None, "buckets": {"shapes": SHAPES, "tiers": [256]}},
            model={"model_path": "./none"},
            curate={"dedup": {"method": "digest"}, "filters": {"banned": ["/picture 3 /"]}},
        )
        planned = show("plan", "set")
        assert project.run().ok
        yield project, planned


def show(*words: object) -> Any:
    """What a command prints as JSON."""
    result = CliRunner().invoke(app, [*map(str, words), "--json"])
    assert result.exit_code == 0, result.output + repr(result.exception)
    return json.loads(result.stdout)


def size_of(folder: Path, pattern: str) -> int:
    return sum(path.stat().st_size for path in folder.rglob(pattern))


def files_of(folder: Path) -> set[Path]:
    """Every file but locks and Dagster's own."""
    found = {path for path in folder.rglob("*") if path.is_file()}
    return {path for path in found if not {".locks", ".dagster"} & set(path.parts)}


def test_the_plan_foretells_samples_bytes_and_what_is_timed(
    made: tuple["ProjectFolder", dict[str, Any]],
) -> None:
    project, planned = made
    samples, out = planned["samples"], project.layout().output_dir
    assert (samples["listed"], samples["kept"], samples["served"]) == (10, 8, 8)
    assert [(v["rule"], v["code"], v["left_out"]) for v in samples["verdicts"]] == [
        ("dedup", "duplicate", 1),
        ("filters.banned", "filter_banned", 1),
    ]
    assert samples["verdicts"][1]["first"][0]["source_key"] == "images/p003.jpg"
    assert sum(bucket["samples"] for bucket in planned["buckets"]) == 8
    assert planned["captions"]["samples"] == 8
    assert (planned["models"], planned["models_error"]) == ([], None)
    assert planned["sizing"] == "buckets, a table of 3 shapes in tiers 256"
    raw, mds = planned["sizes"]["outputs"]
    assert (raw["format"], raw["pictures"], mds["format"]) == ("raw", 8, "mds")
    tars = size_of(out, "*.tar")
    assert abs(raw["shards"] - tars) <= 10_240 * len(list(out.rglob("*.tar")))
    assert mds["shards"] == pytest.approx(size_of(out / "mds", "*.mds"), rel=0.05)
    assert planned["sizes"]["intermediates"] == 0
    assert list(planned["probe"]["stages"]) == ["shard_raw", "shard_mds"]
    assert all(stage["seconds"] > 0 for stage in planned["probe"]["stages"].values())
    card = json.loads((out / "dataset.json").read_text())["counts"]
    assert (card["listed"], card["written"]) == (samples["listed"], samples["kept"])
    assert card["rejects"] == {code: one["samples"] for code, one in samples["rejects"].items()}
    assert card["splits"] == samples["splits"]
    sizes = {(b["width"], b["height"]): b["samples"] for b in planned["buckets"]}
    assert {(b["width"], b["height"]): b["samples"] for b in card["buckets"]} == sizes


def test_info_tells_members_and_columns(made: tuple["ProjectFolder", dict[str, Any]]) -> None:
    out = made[0].layout().output_dir
    raw, mds = show("info", "set"), show("info", out / "mds")
    for found in (raw, mds):
        assert (found["dataset"], found["samples"], found["listed"]) == ("set", 8, 10)
        assert {split: entry["samples"] for split, entry in found["splits"].items()} == {
            "train": 6,
            "val": 2,
            "test": 0,
        }
        assert found["validity"]["state"] == "valid"
        assert found["caption_bytes"]["captions"] == 8
        compile(found["load"], "load", "exec")
    assert (raw["encoding"], mds["encoding"]) == ("raw", "mds")
    assert list(raw["members"]) == ["jpg", "txt", "json"]
    assert raw["members"]["jpg"]["content"].startswith("JPEG ")
    assert list(mds["members"]) == sorted(
        [
            *("caption", "height", "id", "image", "original_height", "original_width"),
            *("source_key", "width"),
        ]
    )
    assert mds["members"]["image"]["bytes_per_sample"] > 500
    assert mds["size_bytes"] == size_of(out / "mds", "*.mds")
    assert [other["format"] for other in raw["other_outputs"]] == ["mds"]
    shown = CliRunner().invoke(app, ["info", str(out / "mds")]).stdout
    for words in ("8 in 5 shards", "train 6 (75.0%), val 2 (25.0%)", "SkipLists", "raw, in .."):
        assert words in shown


def test_list_tells_every_format_and_skip_lists_that_are_not_taken_in(
    made: tuple["ProjectFolder", dict[str, Any]],
) -> None:
    layout = made[0].layout()

    def row() -> dict[str, Any]:
        return show("list")["datasets"][0]

    before = row()
    assert (before["state"], before["formats"]) == ("fresh", ["raw", "mds"])
    output = files_of(layout.output_dir)
    assert before["output_bytes"] == sum(path.stat().st_size for path in output)
    stored = layout.skip_lists / "bad.parquet"
    write_stored_list(stored, [entry_of("images/p000.jpg")])
    assert (row()["state"], row()["why"]) == ("stale", ["skip list bad added"])
    stored.unlink()
    index = min((layout.output_dir / "mds").rglob("index.json"))
    content = index.read_bytes()
    index.write_bytes(content + b" ")
    assert row()["why"] == [
        "mds: files of the output folder changed",
        "mds: not validated as it is",
    ]
    index.write_bytes(content)
    times = json.loads(layout.of("mds").prepared.read_text())["files"]
    mtime = times[index.relative_to(layout.output_dir / "mds").as_posix()][1]
    os.utime(index, ns=(mtime, mtime))
    assert row()["state"] == "fresh"


@pytest.mark.parametrize("place", ["", "mds"])
def test_preview_shows_stored_pictures_beside_their_sources(
    made: tuple["ProjectFolder", dict[str, Any]], place: str
) -> None:
    out = made[0].layout().output_dir / place
    content = show("preview", out, f"page{place}.html", "--html", "--samples", 6)
    assert content["vae"] is None
    assert len({sample["size"] for sample in content["samples"]}) == 3
    assert all(sample["psnr"] > 35 for sample in content["samples"])
    assert all(sample["source_key"].startswith("images/p") for sample in content["samples"])
    page = Path(f"page{place}.html").read_text("utf-8")
    assert "as they are stored" in page
    assert page.count("<img ") == 12
    assert Image.open(f"page{place}.jpg").format == "JPEG"
    refused = CliRunner().invoke(app, ["preview", str(out), "--vae", "x"])
    assert refused.exit_code == 2


def test_a_tree_of_another_tool_is_looked_into(
    made: tuple["ProjectFolder", dict[str, Any]], tmp_path: Path
) -> None:
    tree = made[0].layout().output_dir / "mds"
    index = max(tree.rglob("index.json"), key=lambda path: read_index(path)[0]["samples"])
    other = tmp_path / "other"
    other.mkdir()
    for path in index.parent.iterdir():
        (other / path.name).write_bytes(path.read_bytes())
    found = show("info", other)
    shards = sorted(other.glob("*.mds"))
    samples = 0
    for shard in shards:
        with open_shard(shard) as reader:
            samples += reader.header.num_samples
    assert found["samples"] == samples > 1
    assert (found["dataset"], found["kind"], found["splits"]) == (None, "MDS", {})
    assert found["validity"]["state"] == "unknown"
    (other / f"{shards[0].name}.skip.mine.json").write_text('{"skip": [0]}')
    left = show("preview", other, tmp_path / "x.html", "--html")
    assert len(left["samples"]) == found["samples"] - 1


def test_clean_removes_a_format_that_the_recipe_dropped_and_nothing_else(
    made: tuple["ProjectFolder", dict[str, Any]],
) -> None:
    project = made[0]
    layout = project.layout()
    assert show("clean", "set")["kinds"]["old_formats"]["files"] == 0
    everything = show("clean", "set", "--all", "--dry-run")["kinds"]["output"]
    output = [path for path in layout.output_dir.rglob("*") if path.is_file()]
    assert (everything["files"], everything["note"]) == (len(output), "")
    project.write_recipe_over(output={"formats": ["raw"]})
    of_mds = layout.of("mds")
    folders = (of_mds.output_dir, of_mds.shards_folder)
    ours = {path for folder in folders for path in files_of(folder)}
    ours |= {of_mds.prepared, of_mds.published_state}
    rest = files_of(project.folder) - ours
    (of_mds.output_dir / "mine.txt").write_text("mine")
    said = show("clean", "set", "--old-formats")["kinds"]["old_formats"]
    assert said["files"] == len(ours)
    assert said["note"] == "the recipe does not list mds any more"
    assert files_of(project.folder) == rest | {of_mds.output_dir / "mine.txt"}
    assert not of_mds.shards_folder.exists()
    again = show("plan", "set")
    assert again["samples"] == made[1]["samples"]
    assert [output["format"] for output in again["sizes"]["outputs"]] == ["raw"]
    assert again["disks"][0]["needed"] == 0
    assert again["probe"]["skipped"] == "every shard is made already"
