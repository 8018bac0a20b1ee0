"""Looking into a large remote file without fetching all of it."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from diffprep_resources.errors import SourceAccessError
from diffprep_resources.sources.fields import FieldKeys
from diffprep_resources.sources.huggingface import HuggingFaceSource
from diffprep_resources.sources.peek import peek
from diffprep_resources.sources.transfer import Body, Wanted, version_time_s


class Server:
    """Serves bytes, and counts those that it gave."""

    def __init__(self, data: bytes, *, knows_ranges: bool = True) -> None:
        self.data = data
        self.given = 0
        self.knows_ranges = knows_ranges

    @contextmanager
    def open_at(self, start: int) -> Iterator[Body]:
        begins = start if self.knows_ranges else 0
        yield Body(begins, self._chunks(begins))

    def _chunks(self, start: int) -> Iterator[bytes]:
        for at in range(start, len(self.data), 4096):
            chunk = self.data[at : at + 4096]
            self.given += len(chunk)
            yield chunk

    def wanted(self) -> Wanted:
        return Wanted("the file", "v1", len(self.data), self.open_at)


def table(rows: int) -> bytes:
    """Parquet of noise: 20,000 bytes a picture, in row groups of 50."""
    rng = np.random.default_rng(0)
    images = [rng.bytes(20_000) for _ in range(rows)]
    content = pa.table({"image": images, "text": [f"words {number}" for number in range(rows)]})
    buffer = io.BytesIO()
    pq.write_table(content, buffer, row_group_size=50, data_page_size=40_000, use_dictionary=False)
    return buffer.getvalue()


def test_the_first_rows_of_a_table_are_read_from_a_part_of_its_bytes(tmp_path: Path):
    server = Server(table(400))
    target = tmp_path / "x.parquet"
    peek(server.wanted(), target, most_bytes=1_200_000)
    assert server.given < 1_800_000
    assert len(server.data) > 7_000_000
    status = target.stat()
    assert (status.st_size, int(status.st_mtime)) == (len(server.data), version_time_s("v1"))
    source = HuggingFaceSource(str(tmp_path), keys=FieldKeys())
    assert source.num_samples("x.parquet") == 400
    samples = list(zip(range(5), source.samples(source.stamps(["x.parquet"])), strict=False))
    whole = pq.read_table(io.BytesIO(server.data)).to_pylist()
    assert len(samples) == 5
    for number, sample in samples:
        assert (sample.image, sample.caption) == (whole[number]["image"], whole[number]["text"])


def test_the_beginning_of_a_tar_is_taken(tmp_path: Path):
    server = Server(bytes(range(256)) * 4000)
    peek(server.wanted(), tmp_path / "x.tar", most_bytes=10_000)
    data = (tmp_path / "x.tar").read_bytes()
    assert data == server.data[:10_000] + bytes(len(server.data) - 10_000)
    assert server.given < 20_000


def test_a_server_that_gives_whole_files_only_is_refused(tmp_path: Path):
    server = Server(table(100), knows_ranges=False)
    with pytest.raises(SourceAccessError, match="whole files only"):
        peek(server.wanted(), tmp_path / "x.parquet", most_bytes=1000)
    assert server.given == 0


def test_a_table_that_is_none_is_left_to_its_reader(tmp_path: Path):
    server = Server(b"no parquet" * 100)
    peek(server.wanted(), tmp_path / "x.parquet", most_bytes=1000)
    assert (tmp_path / "x.parquet").stat().st_size == 1000
