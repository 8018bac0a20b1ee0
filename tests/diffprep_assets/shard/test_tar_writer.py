import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import datasets
import pytest
import torch
import xxhash
from megatron.energon.epathlib import EPath
from megatron.energon.flavors.webdataset.prepare import (
    IndexSample,
    IndexSamplePart,
    WebdatasetPreparator,
)
from webdataset.compat import WebDataset

from diffprep_assets.energon_prepare.publish import FinishedShard
from diffprep_assets.layout import Layout
from diffprep_assets.shard.tar_writer import TarSample, TarWriter, tar_header
from diffprep_resources.trainers.tensors import tensor_from_bytes

SAMPLES = (
    TarSample(
        "0000000000", (("latents.pth", b"a" * 700), ("caption.txt", b"one"), ("json", b"{}"))
    ),
    TarSample("0000000007", (("latents.pth", b"b" * 512), ("caption.txt", b""), ("json", b"{}"))),
    TarSample("0000000003", (("latents.pth", b"c"), ("caption.txt", b"three"), ("json", b"{}"))),
)


def write(path: Path, samples=SAMPLES):
    with path.open("wb") as file:
        writer = TarWriter(file)
        rows = [writer.add(sample) for sample in samples]
        return rows, writer.close()


def test_the_same_samples_give_the_same_bytes(tmp_path: Path) -> None:
    write(tmp_path / "a.tar")
    write(tmp_path / "b.tar")
    assert (tmp_path / "a.tar").read_bytes() == (tmp_path / "b.tar").read_bytes()


def test_tarfile_finds_every_member_with_its_content_and_nobody_as_owner(tmp_path: Path) -> None:
    write(tmp_path / "a.tar")
    with tarfile.open(tmp_path / "a.tar", "r:") as tar:
        found = {info.name: tar.extractfile(info).read() for info in tar}  # type: ignore[union-attr]
        assert {(info.mtime, info.uid, info.mode) for info in tar} == {(0, 0, 0o644)}
    assert found == {f"{s.key}.{name}": data for s in SAMPLES for name, data in s.members}


def test_rows_say_where_samples_and_parts_lie_and_digests_cover_those_ranges(
    tmp_path: Path,
) -> None:
    rows, summary = write(tmp_path / "a.tar")
    data = (tmp_path / "a.tar").read_bytes()
    for row, sample in zip(rows, SAMPLES, strict=True):
        assert row.digest == xxhash.xxh3_128_hexdigest(data[row.offset : row.offset + row.size])
        parts = [(p.name, data[p.offset : p.offset + p.size]) for p in row.parts]
        assert parts == list(sample.members)
    assert summary.size_bytes == len(data)
    assert summary.digest == xxhash.xxh3_128_hexdigest(data)
    assert summary.end_offset == rows[-1].offset + rows[-1].size


def test_rows_equal_what_energon_finds_by_reading_the_tar(tmp_path: Path) -> None:
    rows, summary = write(tmp_path / "a.tar")
    items = list(
        WebdatasetPreparator._preprocess_tar("a.tar", {"a.tar": 0}, EPath(tmp_path), max_parts=50)
    )
    samples = [i for i in items if isinstance(i, IndexSample)]
    parts = [i for i in items if isinstance(i, IndexSamplePart)]
    assert [(s.sample_key, s.byte_offset, s.byte_size) for s in samples] == [
        (row.key, row.offset, row.size) for row in rows
    ]
    assert [(p.part_name, p.content_byte_offset, p.content_byte_size) for p in parts] == [
        (p.name, p.offset, p.size) for row in rows for p in row.parts
    ]
    assert samples[-1].byte_offset + samples[-1].byte_size == summary.end_offset


def test_webdataset_and_datasets_read_the_same_samples(
    tmp_path: Path, layout: Layout, make_shard: Callable[..., FinishedShard]
) -> None:
    ids = (4, 11, 7)
    shard = make_shard(0, ids, resample=True)
    url = str(layout.shard_file(shard.record.shard))
    read = list(WebDataset(url, shardshuffle=False))
    table = datasets.load_dataset(
        "webdataset", data_files={"train": [url]}, split="train", cache_dir=str(tmp_path / "cache")
    )
    keys = [f"{sample_id:010d}" for sample_id in ids]
    assert [sample["__key__"] for sample in read] == table["__key__"][:] == keys
    captions = [sample["caption.txt"].decode() for sample in read]
    assert captions == table["caption.txt"][:]
    assert "picture 11 of v1" in captions[1]
    assert [json.loads(sample["json"]) for sample in read] == table["json"][:]
    stored = [tensor_from_bytes(sample["mean.pth"], name="mean") for sample in read]
    for tensor, values in zip(stored, table["mean.pth"][:], strict=True):
        assert torch.equal(tensor.float(), torch.tensor(values))


def test_each_sample_is_in_the_file_before_the_next_one_comes() -> None:
    file = io.BytesIO()
    writer = TarWriter(file)
    row = writer.add(SAMPLES[0])
    assert file.tell() == row.offset + row.size > 0


@pytest.mark.parametrize("key", ["", "a.b", "a/b", "k\u00e9y"])
def test_a_key_that_a_reader_would_split_or_not_find_is_refused(key: str) -> None:
    with pytest.raises(ValueError, match="tar key must be ASCII"):
        TarWriter(io.BytesIO()).add(TarSample(key, (("json", b"{}"),)))


def test_a_key_given_twice_is_refused() -> None:
    writer = TarWriter(io.BytesIO())
    writer.add(SAMPLES[0])
    with pytest.raises(ValueError, match="'0000000000' again"):
        writer.add(SAMPLES[0])


def test_members_without_content_or_with_equal_names_are_refused() -> None:
    writer = TarWriter(io.BytesIO())
    for members in ((), (("json", b""), ("json", b"")), (("../x", b""),)):
        with pytest.raises(ValueError, match="member names must differ"):
            writer.add(TarSample("0000000001", members))


def test_a_name_too_long_for_one_header_block_is_refused() -> None:
    with pytest.raises(ValueError, match="under 100 bytes"):
        tar_header("k" * 100, size=0)
