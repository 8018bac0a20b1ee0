"""Raw datasets through every check: pictures as another tool leaves them."""

import io
from pathlib import Path

import pytest
from megatron.energon.flavors.webdataset.base_webdataset import BaseWebdatasetFactory
from PIL import Image
from typer.testing import CliRunner

from diffprep_assets.cli import app
from diffprep_assets.shard.tar_writer import TarSample, TarWriter
from diffprep_assets.validate.dataset import validate_dataset
from diffprep_assets.validate.encoding import encoding_of
from diffprep_assets.validate.report import ValidationReport

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def quick_garbage_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gc.collect", lambda *_: 0)  # energon's, 0.25 s a pass


def picture(number: int) -> bytes:
    file = io.BytesIO()
    size = ((64, 32), (32, 64))[number % 2]
    Image.linear_gradient("L").resize(size).convert("RGB").save(file, "JPEG")
    return file.getvalue()


def write_tar(path: Path, pictures: list[bytes]) -> None:
    with path.open("wb") as file:
        tar = TarWriter(file)
        for number, data in enumerate(pictures):
            tar.add(TarSample(f"{number:010d}", (("jpg", data), ("txt", b"a caption"))))
        tar.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Five samples of two sizes in one tar, without metadata."""
    path = tmp_path / "raw"
    path.mkdir()
    write_tar(path / "000000.tar", [picture(number) for number in range(5)])
    return path


def prepared(folder: Path) -> Path:
    """The folder with energon's own metadata."""
    BaseWebdatasetFactory.prepare_dataset(
        folder, ["000000.tar"], split_parts_ratio=[("train", 1.0)], shuffle_seed=None, workers=1
    )
    (folder / ".nv-meta/dataset.yaml").write_text(
        "__module__: megatron.energon\n__class__: CrudeWebdataset\nsubflavors:\n  encoding: raw\n"
    )
    return folder


def failures(report: ValidationReport) -> list[str]:
    return [str(failure) for failure in report.failures]


def test_every_picture_comes_out_of_the_loader(folder: Path) -> None:
    report = validate_dataset(prepared(folder), full=True)
    assert report.ok, failures(report)
    assert [check.name for check in report.checks] == [
        "metadata",
        "sample_counts",
        "pictures",
        "digests",
        "loader",
    ]
    assert report.facts["encoding"] == "raw"
    assert report.facts["images"] == {"3x32x64": 3, "3x64x32": 2}


def test_a_picture_that_does_not_decode_is_named_by_look_and_loader(folder: Path) -> None:
    pictures = [picture(number) for number in range(5)]
    pictures[3] = b"not a picture"
    write_tar(folder / "000000.tar", pictures)
    found = failures(validate_dataset(prepared(folder), full=True))
    assert any(text.startswith("000000.tar/0000000003: jpg cannot be decoded") for text in found)
    assert any("0000000003: the task encoder raised" in text for text in found)


def test_tars_alone_are_told_by_their_first_sample(folder: Path) -> None:
    assert encoding_of(folder) == "raw"
    report = validate_dataset(folder)
    assert report.ok, failures(report)
    assert report.facts["samples"] == 5


def test_an_mds_index_tells_an_mds_dataset(tmp_path: Path) -> None:
    (tmp_path / "512/1.000").mkdir(parents=True)
    (tmp_path / "512/1.000/index.json").write_text("{}")
    assert encoding_of(tmp_path) == "mds"


def test_a_folder_without_anything_counts_as_preencoded(tmp_path: Path) -> None:
    assert encoding_of(tmp_path) == "preencoded"


def test_judging_latents_of_a_raw_dataset_is_refused(folder: Path) -> None:
    result = CliRunner().invoke(app, ["validate", str(folder), "--decode", "2"])
    assert result.exit_code == 2
    assert "holds raw samples" in " ".join(result.stderr.split())
