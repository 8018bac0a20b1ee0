import json
import os
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from diffprep_assets.layout import Layout
from diffprep_assets.validate.dataset import validate_dataset
from diffprep_assets.validate.report import ValidationReport

WORKER = "training_dataset/worker_0"
FILE = f"{WORKER}/data_chunk_0.parquet"

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def published(make_fastvideo_shard, publish_clips, fastvideo_layout: Layout) -> Path:
    """A dataset of 10 + 1 clips, one of them skipped."""
    publish_clips(
        make_fastvideo_shard(0, range(10), skipped={3: "dedup"}),
        make_fastvideo_shard(1, [10], split="val"),
    )
    return fastvideo_layout.output_dir


def failures(report: ValidationReport) -> dict[str, list[str]]:
    return {
        check.name: [str(failure) for failure in check.failures]
        for check in report.checks
        if not check.passed
    }


def changed(path: Path, **columns: object) -> None:
    """The file again, with other values in its first row."""
    rows = pq.read_table(path)
    first = {**rows.slice(0, 1).to_pylist()[0], **columns}
    tables = [pa.Table.from_pylist([first], schema=rows.schema)]
    tables += [rows.slice(number, 1) for number in range(1, rows.num_rows)]
    path.unlink()
    with pq.ParquetWriter(path, rows.schema) as writer:
        for table in tables:
            writer.write_table(table)


def test_what_was_published_passes_and_is_told_by_the_folder_alone(published: Path):
    report = validate_dataset(published, full=True)
    assert failures(report) == {}
    assert report.facts["encoding"] == "fastvideo"
    assert report.facts["trees"] == {"training_dataset": 9, "validation_dataset": 1}
    assert report.facts["latents"]["training_dataset"] == "4x2x2x4"
    loader = next(check for check in report.checks if check.name == "loader")
    assert loader.message == "`datasets` read 10 rows"


def test_files_of_another_tool_pass_without_a_dataset_json(published: Path):
    for name in ("dataset.json", "README.md"):
        (published / name).unlink()
    report = validate_dataset(published)
    assert failures(report) == {}
    assert report.facts["workload"] == "i2v"


def test_a_tensor_that_is_not_finite_names_its_shard_and_row(published: Path):
    nan = b"\x00\x00\xc0\x7f"
    changed(published / FILE, vae_latent_bytes=nan * (4 * 2 * 2 * 4))
    found = failures(validate_dataset(published))
    assert found["rows"] == [f"{WORKER}/0000000000: vae_latent has values that are not finite"]
    assert any("its bytes changed" in failure for failure in found["sample_counts"])


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"text_embedding_bytes": b"", "text_embedding_shape": [0, 8]}, "text_embedding must have"),
        ({"vae_latent_shape": [4, 2, 4, 4]}, "vae_latent has 256 bytes"),
        ({"pil_image_dtype": "uint8"}, "pil_image must be float32, got 'uint8'"),
        ({"num_frames": 9}, "num_frames is 9, that of its tree 5"),
        ({"caption": None}, "has no caption"),
    ],
)
def test_a_row_that_a_trainer_stumbles_over_is_found(
    published: Path, columns: dict[str, object], words: str
):
    changed(published / FILE, **columns)
    found = failures(validate_dataset(published))
    assert any(words in failure for failure in found["rows"])


def test_several_rows_a_group_are_found(published: Path):
    table = pq.read_table(published / FILE)
    (published / FILE).unlink()
    pq.write_table(table, published / FILE)
    found = failures(validate_dataset(published))
    assert any("one a group is read" in failure for failure in found["sample_counts"])


def test_a_file_that_is_gone_cut_or_added_is_found(published: Path):
    shutil.copy(published / FILE, published / WORKER / "data_chunk_7.parquet")
    (published / WORKER / "data_chunk_1.parquet").unlink()
    path = published / "validation_dataset/worker_1/data_chunk_0.parquet"
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(data[:-20])
    found = failures(validate_dataset(published))
    assert any("data_chunk_1.parquet is listed" in failure for failure in found["metadata"])
    assert any("data_chunk_7.parquet is not listed" in failure for failure in found["metadata"])
    assert any("cannot be read" in failure for failure in found["sample_counts"])
    assert any("id 0000000000 is there 2 times" in failure for failure in found["sample_counts"])
    assert any("served 10, the files hold" in failure for failure in found["provenance"])


def test_a_trainers_list_that_is_older_than_the_files_is_found_and_a_newer_one_is_not(
    published: Path,
):
    cache = published / "training_dataset/map_style_cache"
    cache.mkdir()
    assert failures(validate_dataset(published)) == {}
    os.utime(cache, (1, 1))
    assert "map_style_cache is older" in failures(validate_dataset(published))["metadata"][0]


def test_a_validation_json_whose_picture_is_gone_is_found(published: Path):
    shutil.rmtree(published / "validation_images")
    assert "is not there" in failures(validate_dataset(published))["metadata"][0]
    (published / "validation.json").write_text(json.dumps({"data": [{"caption": "a"}]}))
    assert "a prompt lacks height" in failures(validate_dataset(published))["metadata"][0]


def test_of_known_files_no_tensor_is_read_again(published: Path):
    names = [path.relative_to(published).as_posix() for path in published.rglob("*.parquet")]
    report = validate_dataset(published, known=names)
    assert failures(report) == {}
    rows = next(check for check in report.checks if check.name == "rows")
    assert rows.message == "0 rows looked at"
