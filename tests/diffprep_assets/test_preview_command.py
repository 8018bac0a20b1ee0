import json
import re
import shutil
from base64 import b64decode
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from PIL import Image
from typer.testing import CliRunner

from diffprep_assets.cli import app

if TYPE_CHECKING:
    from tests.conftest import ProjectFolder


def diffprep(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return result.exit_code, result.output


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs start in an empty folder, in no project."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DIFFPREP_PROJECT", raising=False)


def test_source_and_decoded_picture_are_shown_with_their_psnr(
    drawn_dataset: "ProjectFolder", tmp_path: Path
) -> None:
    path, folder = drawn_dataset.layout().output_dir, drawn_dataset.folder
    code, text = diffprep(
        "preview", path, "page.html", "--html", "--samples", 6, "--project", folder, "--json"
    )
    assert code == 0, text
    content = json.loads(text)
    assert len(content["samples"]) == 6
    assert len({sample["size"] for sample in content["samples"]}) > 1
    assert all(sample["psnr"] > 20 for sample in content["samples"])
    assert all(sample["source_missing"] is None for sample in content["samples"])
    assert content["files"] == {"sheet": "page.jpg", "html": "page.html"}
    page = (tmp_path / "page.html").read_text("utf-8")
    pictures = re.findall(r'<img src="data:image/jpeg;base64,([^"]+)"', page)
    assert len(pictures) == 12
    source, decoded = (Image.open(BytesIO(b64decode(data))) for data in pictures[:2])
    assert source.size == decoded.size
    assert not re.findall(r"(?:src|href)=\"(?!data:|#)", page)
    for sample in content["samples"]:
        assert sample["key"] in page
        assert sample["caption"] in page
    assert Image.open(tmp_path / "page.jpg").format == "JPEG"


def test_without_the_source_the_decoded_pictures_stand_alone_and_it_says_why(
    drawn_dataset: "ProjectFolder", tmp_path: Path
) -> None:
    path = drawn_dataset.layout().output_dir
    code, text = diffprep(
        "preview", path, "--samples", 3, "--html", "--vae", drawn_dataset.encoders
    )
    assert code == 0, text
    assert "3 without the source's picture: there is no project here" in " ".join(text.split())
    page = (tmp_path / "set-preview.html").read_text("utf-8")
    assert len(re.findall("<img ", page)) == 3
    assert "there is no project here" in page
    assert (tmp_path / "set-preview.jpg").exists()


def test_a_picture_that_changed_is_not_shown_as_the_source(
    drawn_dataset: "ProjectFolder", project: "ProjectFolder"
) -> None:
    project.write_pictures(range(2))
    project.write_recipe()
    assert project.run().ok
    (project.pictures / "images" / "p000.jpg").unlink()
    code, text = diffprep(
        "preview", project.layout().output_dir, "--project", project.folder, "--json"
    )
    assert code == 0, text
    missing = {
        sample["source_key"]: sample["source_missing"] for sample in json.loads(text)["samples"]
    }
    assert "p000.jpg" in missing.pop("images/p000.jpg")
    assert missing == {"images/p001.jpg": None}


def test_another_vae_than_the_recorded_one_is_refused_unless_it_is_named(
    drawn_dataset: "ProjectFolder", tmp_path: Path
) -> None:
    path = shutil.copytree(drawn_dataset.layout().output_dir, tmp_path / "other")
    content = json.loads((path / "dataset.json").read_text())
    content["models"]["vae"]["weights"]["revision"] = "0" * 32
    (path / "dataset.json").write_text(json.dumps(content))
    code, text = diffprep("preview", path)
    assert code == 1
    assert "not the one that encoded this dataset any more" in " ".join(text.split())
    code, text = diffprep("preview", path, "--samples", 1, "--vae", drawn_dataset.encoders)
    assert code == 0, text


def test_a_page_without_html_and_a_folder_without_dataset_are_wrong_use(tmp_path: Path) -> None:
    assert diffprep("preview", tmp_path, "x.html")[0] == 2
    assert diffprep("preview", tmp_path / "gone")[0] == 2


def test_validate_decode_judges_the_samples(
    drawn_dataset: "ProjectFolder", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(drawn_dataset.folder)
    code, text = diffprep("validate", drawn_dataset.layout().output_dir, "--decode", 4)
    assert code == 0, text
    assert re.search(r"ok   decoded: latents: 4 decoded, PSNR", text)
