import json
import runpy
from pathlib import Path

import numpy as np
import pytest

from diffprep_resources.mds.layout import DamagedShardError
from diffprep_resources.mds.reader import open_shard, raw_columns, read_index

GOLDEN = Path(__file__).parent / "golden"
SHARD = GOLDEN / "shard.00000.mds"
MADE = runpy.run_path(str(GOLDEN / "samples.py"))


def test_every_value_of_the_librarys_shard_comes_back():
    with open_shard(SHARD) as reader:
        samples = list(reader)
    assert len(samples) == len(MADE["SAMPLES"])
    for sample, wanted in zip(samples, MADE["SAMPLES"], strict=True):
        assert sample.keys() == wanted.keys()
        for name, value in wanted.items():
            assert np.array_equal(sample[name], value), name


def test_the_header_says_what_the_index_says():
    entry = read_index(GOLDEN / "index.json")[0]
    with open_shard(SHARD) as reader:
        header = reader.header
    assert header.num_samples == entry["samples"] == 5
    assert header.offsets[-1] == entry["raw_data"]["bytes"]
    assert {name: entry[name] for name in header.config.json_value} == header.config.json_value


def test_a_sample_is_read_alone():
    with open_shard(SHARD) as reader:
        assert reader.sample(3)["id"] == "0000000003"
        for number in (-1, 5):
            with pytest.raises(IndexError):
                reader.sample(number)


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: b"\0\0\0\0" + data[4:],
        lambda data: b"\xff\xff\xff\xff" + data[4:],
        lambda data: data[:-1],
        lambda data: data + b"\0",
        lambda data: data[:4] + b"\0\0\0\0" + data[8:],
        lambda data: data[:8] + data[12:16] + data[8:12] + data[16:],
        lambda data: data.replace(b'"version": 2', b'"version": 1'),
        lambda data: data.replace(b'"jpeg"', b'"jpog"'),
        lambda data: data.replace(b'{"column', b'["column'),
    ],
)
def test_a_file_that_is_no_whole_shard_is_refused(tmp_path: Path, damage):
    path = tmp_path / "shard.00000.mds"
    path.write_bytes(damage(SHARD.read_bytes()))
    with pytest.raises(DamagedShardError), open_shard(path):
        pass


def test_a_sample_whose_sizes_do_not_add_up_is_refused():
    with open_shard(SHARD) as reader:
        data, config = reader.sample_bytes(0), reader.header.config
    for damaged in (data[:3], data[:-1], data + b"\0", b"\xff\xff\xff\xff" + data[4:]):
        with pytest.raises(DamagedShardError):
            raw_columns(config, damaged)


def test_an_index_never_leads_out_of_its_folder(tmp_path: Path):
    content = json.loads((GOLDEN / "index.json").read_bytes())
    content["shards"][0]["raw_data"]["basename"] = "../shard.00000.mds"
    (tmp_path / "index.json").write_text(json.dumps(content))
    with pytest.raises(DamagedShardError, match="name"):
        read_index(tmp_path / "index.json")


@pytest.mark.parametrize("text", ["", "[]", '{"version": 1, "shards": []}', '{"version": 2}'])
def test_what_is_no_index_is_refused(tmp_path: Path, text: str):
    (tmp_path / "index.json").write_text(text)
    with pytest.raises(DamagedShardError):
        read_index(tmp_path / "index.json")
