import os
from pathlib import Path

import numpy as np
import pytest

from diffprep_resources.clips.choose import ClipSampling
from diffprep_resources.clips.file_slice import file_slice
from diffprep_resources.clips.pixels import read_pixels
from diffprep_resources.clips.probe import probe_clip
from diffprep_resources.errors import SourceChangedError
from tests.cases.clip_files import clip


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "a.tar"
    path.write_bytes(b"before" + bytes(range(100)) + b"after")
    return path


def test_a_slice_reads_as_a_file_of_its_own(archive: Path) -> None:
    with file_slice(archive, offset=6, length=100) as file:
        assert file.read() == bytes(range(100))
        assert file.read(1) == b""
        assert (file.seek(-5, os.SEEK_END), file.read(9)) == (95, bytes(range(95, 100)))
        assert (file.seek(10), file.read(2), file.tell()) == (10, b"\x0a\x0b", 12)
        assert (file.seek(3, os.SEEK_CUR), file.read(1)) == (15, b"\x0f")
        assert (file.seek(1000), file.read(5)) == (1000, b"")


def test_a_file_that_became_shorter_is_told(archive: Path) -> None:
    with (
        pytest.raises(SourceChangedError, match="shorter than it was"),
        file_slice(archive, offset=50, length=100),
    ):
        pass


def test_a_clip_in_a_larger_file_gives_the_same_as_alone(tmp_path: Path) -> None:
    data = clip(frames=12)
    alone, within = tmp_path / "a.mp4", tmp_path / "b.tar"
    alone.write_bytes(data)
    within.write_bytes(bytes(512) + data + data)
    sampling = ClipSampling(frame_counts=(5,))
    with file_slice(within, offset=512, length=len(data)) as file:
        info = probe_clip(file, sampling=sampling, source_key="a")
        assert info == probe_clip(alone, sampling=sampling, source_key="a")
        sliced, whole = (
            read_pixels(source, wanted_pts=info.wanted_pts, width=64, height=48)
            for source in (file, alone)
        )
    assert np.array_equal(sliced, whole)
