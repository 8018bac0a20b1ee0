"""The shard in golden/ is that of the library's own writer; see golden/samples.py."""

import io
import runpy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import xxhash

from diffprep_resources.errors import SettingError
from diffprep_resources.mds import writer
from diffprep_resources.mds.layout import ShardConfig, index_bytes, index_entry
from diffprep_resources.mds.reader import ShardReader
from diffprep_resources.mds.writer import ShardSummary, ShardWriter

GOLDEN = Path(__file__).parent / "golden"
MADE = runpy.run_path(str(GOLDEN / "samples.py"))
CONFIG = ShardConfig.of(MADE["COLUMNS"])
SMALL = ShardConfig.of({"id": "str", "number": "int"})


def shard_of(
    samples: Sequence[Mapping[str, Any]], *, config: ShardConfig, max_samples: int
) -> tuple[bytes, ShardSummary]:
    file = io.BytesIO()
    shard = ShardWriter(file, config=config, max_samples=max_samples)
    for sample in samples:
        shard.add(sample)
    summary = shard.close()
    return file.getvalue(), summary


@pytest.mark.parametrize("max_samples", [5, 6, 400])
def test_the_shard_equals_that_of_the_librarys_writer_byte_for_byte(max_samples: int):
    data, summary = shard_of(MADE["SAMPLES"], config=CONFIG, max_samples=max_samples)
    assert data == (GOLDEN / "shard.00000.mds").read_bytes()
    assert summary.size_bytes == summary.offsets[-1] == len(data)
    assert summary.digest == xxhash.xxh3_128_hexdigest(data)


def test_the_index_equals_the_librarys_byte_for_byte():
    data, summary = shard_of(MADE["SAMPLES"], config=CONFIG, max_samples=5)
    entry = index_entry(
        CONFIG,
        basename="shard.00000.mds",
        num_samples=5,
        size_bytes=len(data),
        digest=summary.digest,
    )
    assert index_bytes([entry]) == (GOLDEN / "index.json").read_bytes()


def test_fewer_samples_than_room_was_left_for_are_moved_up(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(writer, "MOVE_BYTES", 7)
    samples = [{"id": "x" * n, "number": n} for n in range(9)]
    exact, _ = shard_of(samples, config=SMALL, max_samples=9)
    moved, _ = shard_of(samples, config=SMALL, max_samples=30)
    assert moved == exact


def test_a_sample_is_described_by_where_its_columns_lie():
    file = io.BytesIO()
    shard = ShardWriter(file, config=SMALL, max_samples=1)
    row = shard.add({"id": "abc", "number": 5})
    shard.close()
    data = ShardReader(file).sample_bytes(0)
    assert row.parts == (("id", 4, 3), ("number", 7, 8))
    assert data[4:7] == b"abc"
    assert row.size == len(data)
    assert row.digest == xxhash.xxh3_128_hexdigest(data)


def test_a_shard_without_samples_is_refused():
    with pytest.raises(ValueError, match="at least one sample"):
        ShardWriter(io.BytesIO(), config=SMALL, max_samples=3).close()


def test_a_sample_more_than_there_is_room_for_is_refused():
    shard = ShardWriter(io.BytesIO(), config=SMALL, max_samples=1)
    shard.add({"id": "a", "number": 1})
    with pytest.raises(ValueError, match="at most 1"):
        shard.add({"id": "b", "number": 1})


def test_a_shard_larger_than_its_offsets_can_say_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(writer, "LARGEST_BYTES", 400)
    shard = ShardWriter(io.BytesIO(), config=SMALL, max_samples=3)
    shard.add({"id": "a" * 100, "number": 1})
    with pytest.raises(SettingError, match=r"2 samples .* output\.shard_size"):
        shard.add({"id": "b" * 100, "number": 1})


def test_a_wrong_value_names_its_column():
    shard = ShardWriter(io.BytesIO(), config=SMALL, max_samples=1)
    with pytest.raises(ValueError, match="column number: int takes a plain int"):
        shard.add({"id": "a", "number": 1.5})
    with pytest.raises(ValueError, match="has the columns"):
        shard.add({"id": "a"})
