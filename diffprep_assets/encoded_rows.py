"""Rows that were encoded before, wherever they lie now: found by the sample's fingerprint.

A shard's rows are in its row files until the finished shard is written (a tar; of clips, files of
FastVideo's), and in that from then on. A sample that moved (to another bucket, or into a new
generation) is found under its former shards.
"""

import io
import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
import xxhash

from diffprep_assets.layout import Layout
from diffprep_assets.shard.record import (
    FINGERPRINT_COLUMNS,
    SampleRow,
    ShardRecord,
    bad_keys,
    read_record,
    read_samples,
)
from diffprep_assets.shard_fastvideo.files import finished_bytes
from diffprep_assets.shard_fastvideo.stored import stored_tensors
from diffprep_resources.storage.parquet_tables import DamagedTableError, has_table
from diffprep_resources.storage.row_file import RowReader, read_header, row_reader

if TYPE_CHECKING:
    import torch

STAGE_TENSORS = {
    "encode_latents": ("latents", "mean", "logvar"),
    "encode_text": ("prompt_embeds", "prompt_length", "pooled_prompt_embeds"),
    "encode_first_frame": ("first_frame_latents", "pil_image"),
    "encode_clip": ("clip_feature",),
}
"""The tensors of a row by stage, of those that it has."""
Reject = dict[str, Any]

logger = logging.getLogger(__name__)


class EncodedRows:
    """Rows and rejects of one stage, by fingerprint: of those wanted. One row is in memory at a
    time, and no finished shard is open between two: a shard may take its rows from thousands."""

    def __init__(self, stage: str, wanted: Collection[str]) -> None:
        self.stage = stage
        self._wanted = frozenset(wanted)
        self._column = FINGERPRINT_COLUMNS[stage]
        # Of thousands of rows that other shards hold, few are wanted.
        self.of_interest = pc.field(self._column).isin(sorted(self._wanted))
        self._in_row_files: dict[str, tuple[RowReader, int]] = {}
        self._in_shards: dict[str, Callable[[], dict[str, torch.Tensor] | None]] = {}
        self._rejects: dict[str, Reject] = {}

    def find(self, fingerprint: str) -> "dict[str, torch.Tensor] | None":
        """The tensors of one sample, or None where there are none that can be trusted. Of a
        finished shard first: a digest shows whether its bytes are still those that were written."""
        tensors = None
        if fingerprint in self._in_shards:
            tensors = self._in_shards[fingerprint]()
        if tensors is None and fingerprint in self._in_row_files:
            reader, number = self._in_row_files[fingerprint]
            tensors = reader.row(number)
        return tensors

    def is_damaged(self, fingerprint: str) -> bool:
        """Whether the sample's row should be there, but `find` cannot give it."""
        return fingerprint in self._in_shards

    def reject(self, fingerprint: str) -> Reject | None:
        """Why this very sample was left out before; it is not tried again."""
        return self._rejects.get(fingerprint)

    def add_row_file(self, reader: RowReader) -> None:
        """The rows and rejects of a row file, as far as they are wanted and not known yet."""
        header = reader.header
        rejected = {reject["sample_id"]: reject for reject in header.rejects}
        pairs = zip(header.metadata["sample_ids"], header.metadata["fingerprints"], strict=True)
        for number, (sample_id, fingerprint) in enumerate(pairs):
            if sample_id in rejected:
                self._add_reject(fingerprint, rejected[sample_id])
            elif fingerprint in self._wanted:
                self._in_row_files.setdefault(fingerprint, (reader, number))

    def add_shard(
        self,
        record: ShardRecord,
        rows: Iterable[SampleRow],
        read: "Callable[[SampleRow], dict[str, torch.Tensor] | None]",
    ) -> None:
        """The same of a finished shard; `rows` are those of interest, `read` gives the tensors of
        one."""
        for reject in record.rejects:
            if reject.stage == self.stage:
                self._add_reject(reject.fingerprint, asdict(reject))
        for row in rows:
            self._in_shards.setdefault(getattr(row, self._column), partial(read, row))

    def _add_reject(self, fingerprint: str, reject: Reject) -> None:
        """What was added before is newer: a row there was encoded since."""
        if fingerprint not in self._in_row_files and fingerprint not in self._in_shards:
            self._rejects.setdefault(fingerprint, reject)


@contextmanager
def encoded_rows(
    layout: Layout, stage: str, *, shards: Iterable[str], wanted: Collection[str]
) -> Iterator[EncodedRows]:
    """What `shards` hold of `stage` with a fingerprint that is `wanted`, to be read within the
    block. The first shard goes first."""
    rows = EncodedRows(stage, wanted)
    with ExitStack() as stack:
        for shard in dict.fromkeys(shards):
            _add_row_file(rows, row_path(layout, stage, shard), stack)
            _add_shard(rows, layout.of_rows, shard)
        yield rows


def row_path(layout: Layout, stage: str, shard: str) -> Path:
    """The row file of a shard at an encode stage."""
    return {
        "encode_latents": layout.latents,
        "encode_text": layout.text,
        "encode_first_frame": layout.first_frame,
        "encode_clip": layout.clip,
    }[stage](shard)


def whole_record(layout: Layout, shard: str) -> ShardRecord | None:
    """The record of a finished shard of the layout's format whose file is there in full; None
    otherwise, also while another takes its place."""
    record = read_record(layout.shard_record(shard))
    if record is None or not has_table(layout.shard_samples(shard)):
        return None
    if layout.shard_next_record(shard).exists():
        return None
    return record if _size_on_disk(layout, shard) == record.size_bytes else None


def _size_on_disk(layout: Layout, shard: str) -> int | None:
    if layout.format == "fastvideo":
        return finished_bytes(layout, shard)
    try:
        return layout.shard_file(shard).stat().st_size
    except FileNotFoundError:
        return None


def _add_row_file(rows: EncodedRows, path: Path, stack: ExitStack) -> None:
    if read_header(path) is None:
        return
    # Another run may remove the file: its rows are in the finished shard then.
    with suppress(FileNotFoundError):
        rows.add_row_file(stack.enter_context(row_reader(path)))


def _add_shard(rows: EncodedRows, layout: Layout, shard: str) -> None:
    record = whole_record(layout, shard)
    if record is None:
        return
    bad = bad_keys(layout.shard_bad(shard))
    try:
        samples = read_samples(layout.shard_samples(shard), where=rows.of_interest)
    except DamagedTableError as error:
        logger.warning("shard %s is encoded again: %s", shard, error)
        return
    if layout.format == "fastvideo":
        read = partial(stored_tensors, layout.shard_folder(shard), record, stage=rows.stage)
    else:
        names = STAGE_TENSORS[rows.stage]
        read = partial(_tensors_in_tar, layout.shard_file(shard), names=names)
    rows.add_shard(record, (row for row in samples if row.key not in bad), read)


def _tensors_in_tar(
    path: Path, row: SampleRow, *, names: tuple[str, ...]
) -> "dict[str, torch.Tensor] | None":
    """The sample's tensors, unless its bytes are not those that were written."""
    import torch

    try:
        with path.open("rb") as file:
            file.seek(row.offset)
            data = file.read(row.size)
    except FileNotFoundError:
        return None
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
