"""Rows that were encoded before are found by fingerprint, in row files and in tars."""

import os
import resource
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from diffprep_assets.encoded_rows import encoded_rows, row_path, whole_record
from diffprep_assets.layout import Layout
from diffprep_assets.shard.record import (
    ShardReject,
    mark_bad_keys,
    read_record,
    read_samples,
    write_record,
    write_samples,
)
from diffprep_resources.storage.row_file import row_file

ROWS = {"prompt_embeds": ("bfloat16", (2, 3)), "pooled_prompt_embeds": ("bfloat16", (4,))}
Finished = Callable[..., Any]
ASKED = {f"{stage}-{name}" for stage in "lt" for name in "abcdxy"}


def write_rows(
    layout: Layout,
    shard: str,
    fingerprints: Sequence[str],
    *,
    value: float,
    rejects: Mapping[str, str] | None = None,
) -> None:
    """A row file of text; every value of row i is `value` + i."""
    metadata = {"sample_ids": list(range(len(fingerprints))), "fingerprints": list(fingerprints)}
    path = row_path(layout, "encode_text", shard)
    with row_file(path, rows=ROWS, num_rows=len(fingerprints), metadata=metadata) as rows:
        for number in range(len(fingerprints)):
            for name, (_, shape) in ROWS.items():
                tensor = torch.full(shape, value + number, dtype=torch.bfloat16)
                rows.write_tensor(name, number, tensor)
        rows.close(
            rejects=[
                {"sample_id": fingerprints.index(name), "code": code}
                for name, code in (rejects or {}).items()
            ]
        )


@pytest.fixture
def tar_shard(layout: Layout, make_shard: Finished) -> Callable[..., str]:
    """A finished tar whose samples carry these fingerprints, `l-` and `t-` for the two stages."""

    def make(number: int, fingerprints: Sequence[str]) -> str:
        record = make_shard(number, range(len(fingerprints))).record
        rows = read_samples(layout.shard_samples(record.shard))
        named = [
            replace(row, latents_fingerprint=f"l-{name}", text_fingerprint=f"t-{name}")
            for row, name in zip(rows, fingerprints, strict=True)
        ]
        write_samples(layout.shard_samples(record.shard), named)
        return record.shard

    return make


def test_a_row_is_found_in_a_tar_first_else_in_a_row_file_and_in_the_first_shard_first(
    layout: Layout, tar_shard: Callable[..., str], draw_tensors: Callable[..., Any]
):
    shard, former = tar_shard(0, "ab"), tar_shard(1, "bc")
    write_rows(layout, shard, ["t-d", "t-a"], value=7)
    shards = [shard, former, "none-such"]
    with encoded_rows(layout, "encode_text", shards=shards, wanted=ASKED) as rows:
        found = rows.find("t-d")
        assert found is not None
        assert found["prompt_embeds"].tolist() == [[7.0] * 3] * 2
        for name, sample_id in (("t-a", 0), ("t-b", 1), ("t-c", 1)):
            found = rows.find(name)
            assert found is not None
            assert found.keys() == {"prompt_embeds", "pooled_prompt_embeds"}
            wanted = draw_tensors(sample_id, width=64, height=32, version="v1")
            assert all(found[key].equal(wanted[key]) for key in found)
        assert rows.find("t-e") is None
        assert rows.find("l-a") is None
    with encoded_rows(layout, "encode_latents", shards=[shard], wanted=ASKED) as rows:
        found = rows.find("l-b")
        assert found is not None
        assert found.keys() == {"latents"}


def test_rows_of_a_damaged_or_marked_sample_are_not_given(
    layout: Layout, tar_shard: Callable[..., str]
):
    shard = tar_shard(0, "abc")
    row = read_samples(layout.shard_samples(shard))[1]
    with layout.shard_file(shard).open("r+b") as file:
        file.seek(row.offset + row.size // 2)
        file.write(b"\x99")
    mark_bad_keys(layout.shard_bad(shard), ["0000000002"])
    with encoded_rows(layout, "encode_text", shards=[shard], wanted=ASKED) as rows:
        assert rows.find("t-a") is not None
        assert rows.find("t-b") is None
        assert rows.is_damaged("t-b")
        assert rows.find("t-c") is None
        assert not rows.is_damaged("t-c")


def test_rejects_are_remembered_of_row_files_and_tars(
    layout: Layout, tar_shard: Callable[..., str]
):
    shard, other = tar_shard(0, "a"), tar_shard(1, "b")
    write_rows(layout, shard, ["t-x", "t-y"], value=0, rejects={"t-y": "non_finite"})
    record = read_record(layout.shard_record(other))
    assert record is not None
    left_out = [
        ShardReject("k", 9, stage, "encoder_failed", "no", fingerprint=f"{stage}-z")
        for stage in ("encode_text", "encode_latents")
    ]
    write_record(layout.shard_record(other), replace(record, rejects=tuple(left_out)))
    with encoded_rows(layout, "encode_text", shards=[shard, other], wanted=ASKED) as rows:
        assert rows.find("t-y") is None
        reject = rows.reject("t-y")
        assert reject is not None
        assert reject["code"] == "non_finite"
        assert rows.reject("encode_text-z") is not None
        assert rows.reject("encode_latents-z") is None
        assert rows.reject("t-x") is None


def test_a_sample_encoded_since_it_was_rejected_elsewhere_is_no_reject(
    layout: Layout, tar_shard: Callable[..., str]
):
    """It moved to `shard`, and was tried again there; its former shards are not yet removed."""
    shard, tried, listed = tar_shard(0, "a"), tar_shard(1, "b"), "listed"
    record = read_record(layout.shard_record(tried))
    assert record is not None
    left_out = ShardReject("k", 9, "encode_text", "encoder_failed", "no", True, fingerprint="t-a")
    write_record(layout.shard_record(tried), replace(record, rejects=(left_out,)))
    write_rows(layout, listed, ["t-a"], value=0, rejects={"t-a": "encoder_failed"})
    for others in ([tried], [listed]):
        shards = [shard, *others]
        with encoded_rows(layout, "encode_text", shards=shards, wanted=ASKED) as rows:
            assert rows.reject("t-a") is None
            assert rows.find("t-a") is not None
        with encoded_rows(layout, "encode_text", shards=others, wanted=ASKED) as rows:
            assert rows.reject("t-a") is not None


def test_rows_come_from_any_number_of_shards_with_few_files_open(
    layout: Layout, tar_shard: Callable[..., str]
):
    """Samples dealt anew lie in as many shards as there are samples in one."""
    names = [f"{number:03d}" for number in range(60)]
    shards = [tar_shard(number, [name, "other"]) for number, name in enumerate(names)]
    wanted = [f"t-{name}" for name in names]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 20, hard))
    try:
        with encoded_rows(layout, "encode_text", shards=shards, wanted=wanted) as rows:
            assert all(rows.find(fingerprint) is not None for fingerprint in wanted)
            assert rows.find("t-other") is None
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("what", ["tar gone", "tar cut", "no rows", "no record", "next"])
def test_a_shard_that_is_not_whole_gives_nothing(
    layout: Layout, tar_shard: Callable[..., str], what: str
):
    shard = tar_shard(0, "a")
    assert whole_record(layout, shard) is not None
    record, tar = layout.shard_record(shard), layout.shard_file(shard)
    if what == "tar gone":
        tar.unlink()
    elif what == "tar cut":
        tar.write_bytes(tar.read_bytes()[:-512])
    elif what == "no rows":
        layout.shard_samples(shard).unlink()
    elif what == "no record":
        record.unlink()
    else:
        layout.shard_next_record(shard).write_bytes(record.read_bytes())
    assert whole_record(layout, shard) is None
    with encoded_rows(layout, "encode_text", shards=[shard], wanted=ASKED) as rows:
        assert rows.find("t-a") is None


def test_a_cut_row_file_gives_nothing(layout: Layout, tmp_path: Path):
    write_rows(layout, "s", ["t-a"], value=1)
    path = row_path(layout, "encode_text", "s")
    path.write_bytes(path.read_bytes()[:-1])
    with encoded_rows(layout, "encode_text", shards=["s"], wanted=ASKED) as rows:
        assert rows.find("t-a") is None
