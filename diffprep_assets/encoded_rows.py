"""Rows that were encoded before, wherever they lie now: found by the sample's fingerprint.

A shard's rows are in its row file until the tar is written, and in the tar from then on. A sample
that moved (to another bucket, or into a new generation) is found under its former shards.
"""

import io
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import xxhash

from diffprep_assets.layout import Layout
from diffprep_assets.shard.record import SampleRow, ShardRecord, bad_keys, read_record, read_samples
from diffprep_resources.storage.row_file import RowReader, read_header, row_reader

if TYPE_CHECKING:
    import torch

STAGE_TENSORS = {
    "encode_latents": ("latents", "mean", "logvar"),
    "encode_text": ("prompt_embeds", "pooled_prompt_embeds"),
}
Reject = dict[str, Any]


class EncodedRows:
    """Rows and rejects of one stage, by fingerprint. One row is in memory at a time."""

    def __init__(self) -> None:
        self._in_row_files: dict[str, tuple[RowReader, int]] = {}
        self._in_tars: dict[str, tuple[BinaryIO, SampleRow]] = {}
        self._rejects: dict[str, Reject] = {}
        self._names: tuple[str, ...] = ()

    def find(self, fingerprint: str) -> "dict[str, torch.Tensor] | None":
        """The tensors of one sample, or None where there are none that can be trusted."""
        if fingerprint in self._in_row_files:
            reader, number = self._in_row_files[fingerprint]
            return reader.row(number)
        if fingerprint in self._in_tars:
            return _tensors_in_tar(*self._in_tars[fingerprint], names=self._names)
        return None

    def is_damaged(self, fingerprint: str) -> bool:
        """Whether the sample's row should be there, but `find` cannot give it."""
        return fingerprint in self._in_tars

    def reject(self, fingerprint: str) -> Reject | None:
        """Why this very sample was left out before; it is not tried again."""
        return self._rejects.get(fingerprint)


@contextmanager
def encoded_rows(layout: Layout, stage: str, *, shards: Iterable[str]) -> Iterator[EncodedRows]:
    """The rows that `shards` hold of `stage`, open for the block. The first shard goes first."""
    rows = EncodedRows()
    rows._names = STAGE_TENSORS[stage]
    with ExitStack() as stack:
        for shard in dict.fromkeys(shards):
            _add_row_file(rows, row_path(layout, stage, shard), stack)
            _add_tar(rows, layout, stage, shard, stack)
        yield rows


def row_path(layout: Layout, stage: str, shard: str) -> Path:
    """The row file of a shard at an encode stage."""
    return layout.latents(shard) if stage == "encode_latents" else layout.text(shard)


def whole_record(layout: Layout, shard: str) -> ShardRecord | None:
    """The record of a finished shard whose tar is there in full; None otherwise, also while
    another tar takes its place."""
    record = read_record(layout.shard_record(shard))
    if record is None or not layout.shard_samples(shard).exists():
        return None
    if layout.shard_next_record(shard).exists():
        return None
    try:
        size = layout.shard_tar(shard).stat().st_size
    except FileNotFoundError:
        return None
    return record if size == record.size_bytes else None


def _add_row_file(rows: EncodedRows, path: Path, stack: ExitStack) -> None:
    header = read_header(path)
    if header is None:
        return
    reader = stack.enter_context(row_reader(path))
    rejected = {reject["sample_id"]: reject for reject in header.rejects}
    pairs = zip(header.metadata["sample_ids"], header.metadata["fingerprints"], strict=True)
    for number, (sample_id, fingerprint) in enumerate(pairs):
        if sample_id in rejected:
            rows._rejects.setdefault(fingerprint, rejected[sample_id])
        else:
            rows._in_row_files.setdefault(fingerprint, (reader, number))


def _add_tar(rows: EncodedRows, layout: Layout, stage: str, shard: str, stack: ExitStack) -> None:
    record = whole_record(layout, shard)
    if record is None:
        return
    for reject in record.rejects:
        # A row file is newer than the tar: what it holds was encoded since.
        if reject.stage == stage and reject.fingerprint not in rows._in_row_files:
            rows._rejects.setdefault(reject.fingerprint, asdict(reject))
    bad = bad_keys(layout.shard_bad(shard))
    file = stack.enter_context(layout.shard_tar(shard).open("rb"))
    for row in read_samples(layout.shard_samples(shard)):
        if row.key not in bad:
            fingerprint = (
                row.latents_fingerprint if stage == "encode_latents" else row.text_fingerprint
            )
            rows._in_tars.setdefault(fingerprint, (file, row))


def _tensors_in_tar(
    file: BinaryIO, row: SampleRow, *, names: tuple[str, ...]
) -> "dict[str, torch.Tensor] | None":
    """The sample's tensors, unless its bytes are not those that were written."""
    import torch

    file.seek(row.offset)
    data = file.read(row.size)
    if xxhash.xxh3_128_hexdigest(data) != row.digest:
        return None
    tensors = {}
    for part in row.parts:
        name = part.name.removesuffix(".pth")
        if name in names:
            start = part.offset - row.offset
            content = io.BytesIO(data[start : start + part.size])
            tensors[name] = torch.load(content, weights_only=True)
    return tensors
