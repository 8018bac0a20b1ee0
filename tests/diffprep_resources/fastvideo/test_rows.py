import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pyarrow.parquet as pq
import pytest

from diffprep_resources.encoders.base import Workload
from diffprep_resources.fastvideo.reading import problems_in, read_row, read_rows
from diffprep_resources.fastvideo.rows import FastVideoRow, copy_rows, write_rows
from diffprep_resources.fastvideo.schema import fastvideo_schema, tensor_names
from diffprep_resources.fastvideo.shapes import TensorShapes

SHAPES: dict[str, tuple[int, ...]] = {
    "vae_latent": (16, 3, 4, 6),
    "text_embedding": (512, 32),
    "clip_feature": (17, 32),
    "first_frame_latent": (16, 3, 4, 6),
    "pil_image": (3, 32, 48),
}
WORKLOADS: tuple[Workload, ...] = ("t2v", "i2v")


def row(number: int, workload: Workload) -> FastVideoRow:
    rng = np.random.default_rng(number)
    shapes = {**SHAPES, "text_embedding": (3 + number, 32)}
    return FastVideoRow(
        id=f"{number:010d}",
        file_name=f"clip {number}.mp4",
        caption=f"a caf\u00e9 {number}",
        width=48,
        height=32,
        num_frames=9,
        fps=16.0,
        tensors={
            name: rng.standard_normal(shapes[name], dtype=np.float32)
            for name in tensor_names(workload)
        },
    )


def wanted(workload: Workload) -> TensorShapes:
    return {name: SHAPES[name] for name in tensor_names(workload)}


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    def write(workload: Workload, *rows: FastVideoRow) -> Path:
        path = tmp_path / "worker_0" / "data_chunk_0.parquet"
        assert write_rows(path, rows, workload=workload) == len(rows)
        return path

    return write


@pytest.mark.parametrize("workload", WORKLOADS)
def test_rows_come_back_bit_for_bit_one_a_row_group(
    written: Callable[..., Path], workload: Workload
) -> None:
    rows = [row(number, workload) for number in range(3)]
    path = written(workload, *rows)
    with pq.ParquetFile(path) as file:
        assert file.schema_arrow.equals(fastvideo_schema(workload))
        assert file.metadata.num_row_groups == 3
        column = file.metadata.row_group(0).column(1)
        assert (column.compression, column.is_stats_set) == ("ZSTD", False)
    for got, put in zip(read_rows(path, workload=workload), rows, strict=True):
        assert replace(got, tensors={}) == replace(put, tensors={})
        for name, tensor in put.tensors.items():
            assert np.array_equal(got.tensors[name], tensor)  # pyright: ignore[reportArgumentType] "None" is not assignable to "ArrayLike"
    assert list(problems_in(path, workload=workload, shapes=wanted(workload))) == []


def test_the_columns_are_fastvideos_in_its_order() -> None:
    names = fastvideo_schema("i2v").names
    assert names[:4] == ["id", "vae_latent_bytes", "vae_latent_shape", "vae_latent_dtype"]
    assert [name for name in names if name.endswith("_bytes")] == [
        *("vae_latent_bytes", "text_embedding_bytes"),
        *("clip_feature_bytes", "first_frame_latent_bytes", "pil_image_bytes"),
    ]
    assert names[-8:] == [
        *("file_name", "caption", "media_type", "width", "height"),
        *("num_frames", "duration_sec", "fps"),
    ]
    assert names[:7] == fastvideo_schema("t2v").names[:7]


@pytest.mark.parametrize("workload", WORKLOADS)
def test_hugging_faces_datasets_reads_it(
    written: Callable[..., Path], workload: Workload, tmp_path: Path
) -> None:
    path = written(workload, row(0, workload), row(1, workload))
    loaded = datasets.load_dataset(
        "parquet", data_files=os.fspath(path), split="train", cache_dir=str(tmp_path / "cache")
    )
    values: Any = loaded[1]
    latent = np.frombuffer(values["vae_latent_bytes"], np.float32)
    put = row(1, workload).tensors["vae_latent"]
    assert put is not None
    assert np.array_equal(latent.reshape(values["vae_latent_shape"]), put)
    assert (values["media_type"], values["duration_sec"]) == ("video", 9 / 16)


def test_the_same_rows_give_the_same_bytes(written: Callable[..., Path]) -> None:
    rows = [row(number, "t2v") for number in range(2)]
    assert written("t2v", *rows).read_bytes() == written("t2v", *rows).read_bytes()


def test_a_model_without_image_encoder_leaves_its_feature_empty(
    written: Callable[..., Path],
) -> None:
    whole = row(0, "i2v")
    path = written("i2v", replace(whole, tensors={**whole.tensors, "clip_feature": None}))
    values = pq.read_table(path).to_pylist()[0]
    assert [values[f"clip_feature_{part}"] for part in ("bytes", "shape", "dtype")] == [b"", [], ""]
    assert next(read_rows(path, workload="i2v")).tensors["clip_feature"] is None
    empty = {**wanted("i2v"), "clip_feature": None}
    assert list(problems_in(path, workload="i2v", shapes=empty)) == []
    assert len(list(problems_in(path, workload="i2v", shapes=wanted("i2v")))) == 1


@pytest.mark.parametrize(
    ("name", "tensor", "words"),
    [
        ("vae_latent", np.zeros((16, 3, 4, 6), np.float16), "must be float32"),
        ("vae_latent", None, "must not be empty"),
        ("text_embedding", np.zeros((0, 32), np.float32), "with values"),
    ],
)
def test_what_fastvideo_would_misread_is_not_written(
    tmp_path: Path, name: str, tensor: np.ndarray | None, words: str
) -> None:
    good = row(0, "t2v")
    bad = replace(good, tensors={**good.tensors, name: tensor})
    with pytest.raises(ValueError, match=words):
        write_rows(tmp_path / "a.parquet", [good, bad], workload="t2v")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "tensor", "words"),
    [
        ("vae_latent", np.zeros((16, 3, 4, 5), np.float32), "must have shape"),
        ("vae_latent", np.full((16, 3, 4, 6), np.nan, np.float32), "not finite"),
        ("text_embedding", np.zeros((513, 32), np.float32), "must have shape"),
        ("text_embedding", np.zeros((5, 31), np.float32), "must have shape"),
    ],
)
def test_faults_are_named_with_their_row(
    written: Callable[..., Path], name: str, tensor: np.ndarray, words: str
) -> None:
    good = row(0, "t2v")
    path = written("t2v", good, replace(good, id="bad", tensors={**good.tensors, name: tensor}))
    (problem,) = problems_in(path, workload="t2v", shapes=wanted("t2v"))
    assert problem.startswith(f"data_chunk_0.parquet: row 1 (bad): {name}")
    assert words in problem


def test_other_columns_and_large_row_groups_are_told(
    written: Callable[..., Path], tmp_path: Path
) -> None:
    path = written("t2v", row(0, "t2v"), row(1, "t2v"))
    (problem,) = problems_in(path, workload="i2v", shapes=wanted("i2v"))
    assert "not FastVideo's for i2v" in problem
    together = tmp_path / "together.parquet"
    pq.write_table(pq.read_table(path), together)
    (problem,) = problems_in(together, workload="t2v", shapes=wanted("t2v"))
    assert "2 rows in 1 row groups" in problem


def test_one_row_is_read_by_its_number(written: Callable[..., Path]):
    path = written("i2v", row(0, "i2v"), row(1, "i2v"))
    found = read_row(path, number=1, workload="i2v")
    assert found.id == "0000000001"
    expected = row(1, "i2v").tensors
    for name, tensor in found.tensors.items():
        own = expected[name]
        assert tensor is not None
        assert own is not None
        assert np.array_equal(tensor, own)
    with pytest.raises(IndexError, match="has 2 rows, no row 2"):
        read_row(path, number=2, workload="i2v")


def test_rows_are_copied_but_for_those_named_and_stay_one_a_group(written: Callable[..., Path]):
    path = written("t2v", *(row(number, "t2v") for number in range(3)))
    copy, again = path.with_name("copy.parquet"), path.with_name("again.parquet")
    assert copy_rows(path, copy, without={"0000000001", "9"}, workload="t2v") == 2
    assert [found.id for found in read_rows(copy, workload="t2v")] == ["0000000000", "0000000002"]
    assert list(problems_in(copy, workload="t2v", shapes=wanted("t2v"))) == []
    write_rows(again, [row(0, "t2v"), row(2, "t2v")], workload="t2v")
    assert copy.read_bytes() == again.read_bytes()
