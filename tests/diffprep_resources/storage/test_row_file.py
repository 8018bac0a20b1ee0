import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from diffprep_resources.storage.row_file import (
    RowLayout,
    float32_rows,
    read_header,
    row_file,
    row_reader,
)

ROWS: RowLayout = {
    "latents": ("bfloat16", (4, 2, 3)),
    "pooled": ("float32", (5,)),
    "wide": ("float16", (3, 3)),
}
METADATA = {"fingerprint": "abc", "sample_ids": [3, 1, 2], "words": "na\u00efve"}
REJECTS = [{"sample_id": 1, "code": "non_finite", "message": "not \u221e"}]


def tensors(row: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(row)
    return {
        name: torch.randn(shape, generator=generator).to(getattr(torch, dtype))
        for name, (dtype, shape) in ROWS.items()
    }


def write(
    path: Path, *, order: tuple[int, ...] = (0, 1, 2), rejects: list[dict[str, Any]] | None = None
) -> Path:
    """Three rows, those of `order` written in that order."""
    with row_file(path, rows=ROWS, num_rows=3, metadata=METADATA) as rows:
        for row in order:
            for name, tensor in tensors(row).items():
                rows.write_tensor(name, row, tensor)
        rows.close(rejects=rejects or [])
    return path


def test_safetensors_itself_reads_every_row_and_the_metadata(tmp_path: Path):
    path = write(tmp_path / "rows.safetensors", rejects=REJECTS)
    found = load_file(path)
    assert found.keys() == {*ROWS, "rejects"}
    for row in range(3):
        for name, tensor in tensors(row).items():
            assert found[name].dtype == tensor.dtype
            assert found[name][row].equal(tensor)
    with safe_open(path, "np") as file:
        assert list(file.metadata()) == ["diffprep"]
        assert json.loads(file.metadata()["diffprep"]) == METADATA
    assert json.loads(bytes(found["rejects"].numpy())) == REJECTS


def test_our_own_readers_give_the_same(tmp_path: Path):
    path = write(tmp_path / "rows.safetensors", rejects=REJECTS)
    header = read_header(path)
    assert header is not None
    assert (header.metadata, header.rejects) == (METADATA, REJECTS)
    with row_reader(path) as reader:
        for row in (2, 0, 1):
            found = reader.row(row)
            assert found.keys() == ROWS.keys()
            assert all(found[name].equal(tensor) for name, tensor in tensors(row).items())
    as_float32 = float32_rows(path, row=1)
    for name, tensor in tensors(1).items():
        assert as_float32[name].dtype == np.float32
        np.testing.assert_array_equal(as_float32[name], tensor.float().numpy())


def test_rows_and_header_are_of_one_file_though_another_takes_its_name(tmp_path: Path):
    path = write(tmp_path / "rows.safetensors", rejects=REJECTS)
    with row_reader(path) as reader:
        write(path, order=(0,))
        assert (reader.header.metadata, reader.header.rejects) == (METADATA, REJECTS)
        assert reader.row(2)["latents"].equal(tensors(2)["latents"])
    with row_reader(path) as reader:
        assert reader.header.rejects == []
        path.unlink()
        assert not reader.row(2)["latents"].any()


def test_a_row_that_was_never_written_is_zeros(tmp_path: Path):
    found = load_file(write(tmp_path / "rows.safetensors", order=(2, 0)))
    assert all(not found[name][1].any() for name in ROWS)
    assert found["pooled"][2].equal(tensors(2)["pooled"])


def test_the_same_rows_give_the_same_bytes_in_any_order_and_in_another_process(tmp_path: Path):
    first = write(tmp_path / "a", rejects=REJECTS).read_bytes()
    assert write(tmp_path / "b", order=(2, 0, 1), rejects=REJECTS).read_bytes() == first
    code = (
        "import sys, json; from pathlib import Path\n"
        "from diffprep_resources.storage.row_file import row_file\n"
        "rows = {name: (dtype, tuple(shape)) for name, (dtype, shape) in "
        "json.loads(sys.argv[2]).items()}\n"
        "with row_file(Path(sys.argv[1]), rows=rows, num_rows=3, "
        "metadata=json.loads(sys.argv[3])) as file:\n    file.close(rejects=[])\n"
    )
    elsewhere = tmp_path / "c"
    words = [str(elsewhere), json.dumps(dict(ROWS)), json.dumps(METADATA)]
    subprocess.run([sys.executable, "-c", code, *words], check=True)
    assert write(tmp_path / "d", order=()).read_bytes() == elsewhere.read_bytes()


def test_a_torn_file_is_none_wherever_it_was_cut(tmp_path: Path):
    whole = write(tmp_path / "whole", rejects=REJECTS).read_bytes()
    torn = tmp_path / "torn"
    for length in (0, 5, 8, 100, len(whole) // 2, len(whole) - 1):
        torn.write_bytes(whole[:length])
        assert read_header(torn) is None, length
    torn.write_bytes(whole + b"more")
    assert read_header(torn) is None
    torn.write_bytes(bytes(len(whole)))
    assert read_header(torn) is None
    assert read_header(tmp_path / "missing") is None


def test_a_block_that_raises_leaves_no_file(tmp_path: Path):
    path = tmp_path / "rows.safetensors"
    with (
        pytest.raises(RuntimeError, match="stop"),
        row_file(path, rows=ROWS, num_rows=3, metadata=METADATA),
    ):
        raise RuntimeError("stop")
    assert list(tmp_path.iterdir()) == []


def test_a_row_of_another_size_is_refused(tmp_path: Path):
    with (
        pytest.raises(ValueError, match="row of pooled must have 20 bytes, got 24"),
        row_file(tmp_path / "rows", rows=ROWS, num_rows=3, metadata=METADATA) as rows,
    ):
        rows.write_tensor("pooled", 0, torch.zeros(6))


def test_a_view_of_a_batch_writes_its_own_row_alone(tmp_path: Path):
    batch = torch.arange(15.0).reshape(3, 5)
    with row_file(
        tmp_path / "rows", rows={"pooled": ("float32", (5,))}, num_rows=3, metadata={}
    ) as rows:
        rows.write_tensor("pooled", 1, batch[1])
        rows.write_tensor("pooled", 2, batch.T.contiguous().T[2])
        rows.close(rejects=[])
    found = load_file(tmp_path / "rows")["pooled"]
    assert found.tolist() == [[0.0] * 5, batch[1].tolist(), batch[2].tolist()]


def test_zeros_at_a_rows_end_are_holes_and_read_as_zeros(tmp_path: Path):
    """A caption of a few tokens in rows of 512, and how many there are."""
    layout: RowLayout = {"embeds": ("float32", (512, 256)), "length": ("int32", (1,))}
    path = tmp_path / "rows.safetensors"
    embeds = torch.zeros(512, 256)
    embeds[:3] = torch.arange(1.0, 1 + 3 * 256).view(3, 256)
    with row_file(path, rows=layout, num_rows=4, metadata={}) as rows:
        for row in range(4):
            rows.write_tensor("embeds", row, embeds if row else torch.zeros(512, 256))
            rows.write_tensor("length", row, torch.tensor([256 * row], dtype=torch.int32))
        rows.close(rejects=[])
    assert path.stat().st_size > 4 * embeds.nbytes
    assert path.stat().st_blocks * 512 < embeds.nbytes / 4
    with row_reader(path) as reader:
        assert not reader.row(0)["embeds"].any()
        for row in range(1, 4):
            found = reader.row(row)
            assert found["embeds"].equal(embeds)
            assert found["length"].equal(torch.tensor([256 * row], dtype=torch.int32))
    plain = float32_rows(path, row=3)
    assert plain["length"].tolist() == [768.0]
    assert np.array_equal(plain["embeds"], embeds.numpy())
