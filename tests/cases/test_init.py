"""`diffprep init` on each kind of source: what it says, and that its recipe runs as it is."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from typer.testing import CliRunner, Result

from diffprep_assets.cli import app
from tests.conftest import draw, write_parquet, write_pictures, write_tar

if TYPE_CHECKING:
    from tests.conftest import Drawing, ProjectFolder
    from tests.hub_server import DatasetHub

Init = Callable[..., Result]
REPO = "owner/pictures"


@pytest.fixture
def init(project: "ProjectFolder", monkeypatch: pytest.MonkeyPatch) -> Init:
    """Runs `diffprep init set --from ...` in the project's folder, with tiny encoders."""
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.chdir(project.folder)

    def invoke(source: object, *options: str, code: int = 0, name: str = "set") -> Result:
        words = ["init", name, "--from", str(source), "--model", str(project.encoders), *options]
        result = CliRunner().invoke(app, words)
        assert result.exit_code == code, result.output + repr(result.exception)
        return result

    return invoke


def seen(init: Init, source: object, *options: str) -> dict[str, Any]:
    return json.loads(init(source, *options, "--json").stdout)


def written(project: "ProjectFolder") -> int:
    """Samples that a run of the recipe, as it stands in its file, wrote."""
    report = project.run("set")
    assert report.error is None, report.error
    return report.written


def captioned(folder: Path, drawings: "list[Drawing]") -> None:
    folder.mkdir(parents=True)
    for drawing in drawings:
        (folder / drawing.name).write_bytes(drawing.data)
        (folder / f"{drawing.stem}.txt").write_text(drawing.caption, "utf-8")


def tar_members(drawings: "list[Drawing]", *, caption: str = "txt") -> dict[str, bytes]:
    members = {}
    for drawing in drawings:
        text = drawing.caption
        is_json = caption == "json"
        data = json.dumps({"meta": {"words": text}, "url": "x"}) if is_json else text
        members |= {drawing.name: drawing.data, f"{drawing.stem}.{caption}": data.encode()}
    return members


def squares(numbers: range) -> "list[Drawing]":
    return [draw(number, size=(300, 300)) for number in numbers]


# -- recipes that run as they are -----------------------------------------------------------


def test_a_folder_with_captions_beside_the_pictures(project: "ProjectFolder", init: Init):
    captioned(project.folder / "photos", squares(range(5)))
    report = seen(init, "photos")
    assert report["source"] == {"type": "directory", "input_dir": "photos"}
    assert (report["samples"], report["looked_at"], report["rejects"]) == (5, 5, {})
    assert report["captions"]["places"] == {"*.txt beside the picture": 5}
    assert report["sizes"] == {name: [300, 300] for name in ("smallest", "median", "largest")}
    assert report["settings"]["image"] == {"image_size": 256, "center_crop": True}
    assert written(project) == 5


def test_images_and_captions_folders_of_small_pictures(project: "ProjectFolder", init: Init):
    write_pictures(project.pictures, range(5))
    (project.pictures / "captions" / "p004.txt").unlink()
    report = seen(init, project.pictures)
    assert report["captions"] == {
        "places": {"captions/*.txt": 4},
        "without": 1,
        "of": 5,
        "median_words": 8,
        "median_characters": pytest.approx(38, abs=3),
    }
    assert report["settings"]["image"] == {"variable_size": True, "max_size": 144}
    assert report["rejects"] == {"no_caption": 1}
    assert any("tiny pictures: 4 of 4" in sentence for sentence in report["odd"])
    assert written(project) == 4


def test_tars_of_which_one_is_opened_by_a_pattern(project: "ProjectFolder", init: Init):
    for number in range(2):
        drawings = squares(range(3 * number, 3 * number + 3))
        write_tar(project.folder / "shards" / f"{number}.tar", tar_members(drawings))
    report = seen(init, "shards/*.tar")
    assert report["source"] == {"type": "webdataset", "input_path": "shards/*.tar"}
    assert (report["samples"], report["samples_are_estimated"]) == (6, False)
    assert report["captions"]["places"] == {"member .txt": 6}
    assert written(project) == 6


def test_a_folder_of_tars_whose_captions_are_deep_in_json(project: "ProjectFolder", init: Init):
    members = tar_members(squares(range(3)), caption="json")
    write_tar(project.folder / "shards" / "deep" / "0.tar", members)
    report = seen(init, project.folder / "shards")
    assert report["source"]["input_path"] == "shards/**/*.tar"
    assert report["settings"]["data_format"] == {"caption_key": "json.meta.words"}
    assert (report["rejects"], report["captions"]["without"]) == ({}, 0)
    assert written(project) == 3


def test_a_folder_of_parquet_files_with_columns_of_other_names(
    project: "ProjectFolder", init: Init
):
    drawings = squares(range(4))
    table = pa.table(
        {
            "id": [f"row {number} of this table" for number in range(4)],
            "pixels": [{"bytes": d.data, "path": d.name} for d in drawings],
            "long_caption": [d.caption for d in drawings],
        }
    )
    (project.folder / "rows" / "data").mkdir(parents=True)
    pq.write_table(table, project.folder / "rows" / "data" / "train-00000-of-00001.parquet")
    report = seen(init, "rows")
    assert report["source"] == {"type": "huggingface", "hf_dataset": "rows"}
    assert report["settings"]["data_format"] == {
        "image_key": "pixels",
        "caption_key": "long_caption",
    }
    assert report["captions"]["places"] == {"column long_caption": 4}
    assert written(project) == 4


def test_an_image_folder_with_metadata(project: "ProjectFolder", init: Init):
    folder = project.folder / "hub" / "pictures"
    folder.mkdir(parents=True)
    drawings = squares(range(4))
    rows = [{"file_name": d.name, "words": d.caption} for d in drawings]
    (folder / "metadata.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for drawing in drawings:
        (folder / drawing.name).write_bytes(drawing.data)
    report = seen(init, "hub/pictures")
    # Two plain words would be taken for a name on the Hub if the folder went.
    assert report["source"] == {"type": "huggingface", "hf_dataset": "./hub/pictures"}
    assert report["settings"]["data_format"] == {"caption_key": "words"}
    assert report["captions"]["places"] == {"metadata.jsonl": 4}
    assert written(project) == 4


def test_a_dataset_on_the_hub(project: "ProjectFolder", init: Init, hub: "DatasetHub"):
    write_parquet(project.folder / "x.parquet", squares(range(4)))
    data = (project.folder / "x.parquet").read_bytes()
    files = {f"data/train-{number:05d}-of-00005.parquet": data for number in range(5)}
    commit = hub.add(REPO, files)
    report = seen(init, f"hf:{REPO}@main")
    assert report["source"]["hf_revision"] == "main"
    # Two files of five were opened.
    assert (report["samples"], report["samples_are_estimated"]) == (20, True)
    assert (report["looked_at"], hub.fetched().total()) == (8, 2)
    assert report["captions"]["places"] == {"column text": 8}
    assert not project.layout().folder.exists()
    assert commit
    project.write_recipe_over(output={"max_samples": 5})
    assert written(project) == 5


# -- what is odd ----------------------------------------------------------------------------


def test_what_is_odd_in_a_folder_is_said(project: "ProjectFolder", init: Init):
    folder = project.folder / "odd"
    captioned(folder, [draw(number, size=(300, 200 + number)) for number in range(0, 40, 4)])
    names = sorted(path.name for path in folder.glob("*.jpg"))
    (folder / names[0]).with_suffix(".txt").write_text("one line\nanother line")
    (folder / names[1]).with_suffix(".txt").unlink()
    (folder / names[2]).write_bytes(b"<html>")
    (folder / names[3]).write_bytes((folder / names[4]).read_bytes())
    (folder / names[5]).with_suffix(".png").write_bytes((folder / names[6]).read_bytes())
    Image.new("CMYK", (300, 280)).save(folder / names[7])
    deep = np.zeros((280, 300), np.uint16)
    Image.fromarray(deep).save(folder / "deep.png")
    (folder / "deep.txt").write_text("sixteen bits")
    (folder / "notes.md").write_text("x")
    text = init("odd").stdout
    for words in (
        "1 of 12 looked at would be rejected as unreadable_image: p008.jpg",
        "are exact copies of another: p012.jpg, p016.jpg",
        "1 picture of CMYK colours",
        "1 picture of 16 bits a channel or more",
        "1 of 12 have no caption",
        "captions have several lines",
        "mixed suffixes: .jpg 10, .png 2",
        "1 name of several pictures, which share one caption: p020",
        "not read: .md 1",
        "tiny pictures:",
        "diffprep check set",
        "diffprep run set",
    ):
        assert words in text, words
    recipe = (project.folder / "recipes" / "set.yaml").read_text()
    assert len(recipe.splitlines()) < 30
    assert "  lines: whole" in recipe


# -- what is refused ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("empty", "holds no picture, no tar and no parquet file; it holds nothing at all"),
        ("none", "there is nothing at"),
        ("owner/name", "write hf:owner/name"),
        ("hf:owner", "a dataset on the Hub is hf:owner/name"),
        ("notes.md", "is a file that holds no samples; name the folder"),
        ("x.tar.gz", "is packed"),
        ("x-{0..3}.tar", "on this machine write a pattern with *"),
        ("silent", "2 pictures, and no captions; looked for a .txt"),
        ("broken", "none of the 1 looked at can be used, such as a.jpg"),
    ],
)
def test_what_cannot_be_a_source_is_refused_with_the_way_out(
    project: "ProjectFolder", init: Init, source: str, words: str
):
    (project.folder / "empty").mkdir()
    for name in ("notes.md", "x.tar.gz"):
        (project.folder / name).write_text("x")
    captioned(project.folder / "silent", squares(range(2)))
    for path in (project.folder / "silent").glob("*.txt"):
        path.unlink()
    (project.folder / "broken").mkdir()
    (project.folder / "broken" / "a.jpg").write_bytes(b"x")
    assert words in init(source, code=2).stderr
    assert not (project.folder / "recipes").exists()


def test_a_recipe_that_is_there_is_not_replaced(project: "ProjectFolder", init: Init):
    captioned(project.folder / "photos", squares(range(2)))
    init("photos")
    before = (project.folder / "recipes" / "set.yaml").read_bytes()
    assert "is not replaced" in init("photos", code=2).stderr
    assert (project.folder / "recipes" / "set.yaml").read_bytes() == before
    assert "must start with a letter" in init("photos", code=2, name="../x").stderr


def test_an_output_apart_from_the_source_is_chosen(project: "ProjectFolder", init: Init):
    captioned(project.folder / "data" / "set", squares(range(2)))
    report = seen(init, "data/set")
    assert report["settings"]["output"]["output_dir"] == "data/datasets/set"


def test_a_caption_field_may_be_named(project: "ProjectFolder", init: Init):
    data = io.BytesIO()
    drawings = squares(range(2))
    images = [{"bytes": d.data, "path": d.name} for d in drawings]
    rows = {"image": images, "text": ["a", "b"], "other": ["first words", "second words"]}
    pq.write_table(pa.table(rows), data)
    (project.folder / "rows").mkdir()
    (project.folder / "rows" / "one.parquet").write_bytes(data.getvalue())
    report = seen(init, "rows/one.parquet", "--caption-key", "other")
    assert report["source"]["hf_data_files"] == "one.parquet"
    assert report["captions"]["places"] == {"column other": 2}
    assert report["captions"]["median_words"] == 2


def test_a_split_that_is_missing_is_answered_with_the_option(project: "ProjectFolder", init: Init):
    write_parquet(
        project.folder / "rows" / "data" / "test-00000-of-00001.parquet", squares(range(2))
    )
    error = init("rows", code=2).stderr
    assert "source.hf_split (--hf-split) must be one of ['test'], got 'train'" in error
    assert seen(init, "rows", "--hf-split", "test")["samples"] == 2
