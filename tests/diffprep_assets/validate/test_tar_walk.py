import io
import tarfile
from pathlib import Path

import pytest
from megatron.energon.epathlib import EPath
from megatron.energon.flavors.webdataset.prepare import IndexSample, WebdatasetPreparator

from diffprep_assets.validate.tar_walk import walk_tar


def write(path: Path, names: list[str]) -> Path:
    with tarfile.open(path, "w:", format=tarfile.USTAR_FORMAT) as tar:
        for name in names:
            info = tarfile.TarInfo(name)
            info.size = 600
            tar.addfile(info, io.BytesIO(bytes(600)))
    return path


@pytest.mark.parametrize(
    "names",
    [
        ["a.x", "a.y", "b.x"],
        ["sub/a.x.y", "sub/a.json", "__meta__/z", "nodot", "c.x"],
        ["a.x", "b.x", "a.y"],
    ],
)
def test_samples_are_those_that_energon_finds(tmp_path: Path, names: list[str]) -> None:
    walk = walk_tar(write(tmp_path / "t.tar", names))
    items = WebdatasetPreparator._preprocess_tar("t.tar", {"t.tar": 0}, EPath(tmp_path), 50)
    expected = [item for item in items if isinstance(item, IndexSample)]
    assert walk.problem is None
    assert [(s.key, s.offset, s.size) for s in walk.samples] == [
        (item.sample_key, item.byte_offset, item.byte_size) for item in expected
    ]


def test_a_cut_tar_gives_the_samples_before_the_cut_and_says_where(tmp_path: Path) -> None:
    path = write(tmp_path / "t.tar", ["a.x", "b.x", "c.x"])
    with path.open("r+b") as file:
        file.truncate(1536 * 2 + 700)
    walk = walk_tar(path)
    assert [sample.key for sample in walk.samples] == ["a", "b"]
    assert "not a whole tar after sample b" in str(walk.problem)


def test_a_damaged_header_is_a_problem_and_not_the_end(tmp_path: Path) -> None:
    path = write(tmp_path / "t.tar", ["a.x", "b.x", "c.x"])
    data = bytearray(path.read_bytes())
    data[1536] ^= 1
    path.write_bytes(data)
    assert "damaged header at byte 1536" in str(walk_tar(path).problem)


def test_what_is_no_tar_at_all_is_a_problem(tmp_path: Path) -> None:
    for content in (b"", b"<html>" * 300):
        (tmp_path / "t.tar").write_bytes(content)
        assert walk_tar(tmp_path / "t.tar").problem is not None
