"""Energon's own metadata files, assembled from the rows kept beside each shard: no tar is read.

Equal to what `prepare_dataset` of energon 7.4.1 makes: `.idx`, `.info.json` and `split.yaml` byte
for byte, `index.sqlite` row for row. `index.uuid` is random there and follows the content here.
"""

import contextlib
import errno
import json
import os
import sqlite3
import struct
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from diffprep_assets.energon_prepare.names import SPLITS, PublishedShard
from diffprep_assets.shard.record import SampleRow, read_samples, sample_columns

if TYPE_CHECKING:
    from megatron.energon.flavors.webdataset.indexing import SqliteIndexWriter

UUID_NAMESPACE = uuid.UUID("7d0b1f0e-6f0c-5b53-9d4e-3f6d2a6c8a11")
DIGESTS_SCHEMA = pa.schema(
    [
        pa.field("shard", pa.string(), nullable=False),
        pa.field("key", pa.string(), nullable=False),
        pa.field("digest", pa.string(), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True)
class MetaFiles:
    """The files in a dataset's `.nv-meta` folder."""

    folder: Path

    @property
    def dataset_yaml(self) -> Path:
        return self.folder / "dataset.yaml"

    @property
    def split_yaml(self) -> Path:
        return self.folder / "split.yaml"

    @property
    def info_json(self) -> Path:
        return self.folder / ".info.json"

    @property
    def index_sqlite(self) -> Path:
        return self.folder / "index.sqlite"

    @property
    def index_uuid(self) -> Path:
        return self.folder / "index.uuid"

    @property
    def digests(self) -> Path:
        """Ours: one xxh3_128 per sample."""
        return self.folder / "digests.parquet"

    def all(self) -> tuple[Path, ...]:
        """Every file, in the order that takes a dataset down: a reader fails at the first."""
        return (
            self.split_yaml,
            self.info_json,
            self.index_sqlite,
            self.index_uuid,
            self.dataset_yaml,
            self.digests,
        )

    @property
    def is_ours(self) -> bool:
        """Whether diffprep wrote them: no other tool writes digests, which go last."""
        return self.digests.exists()


def dataset_yaml(encoding: str) -> bytes:
    """dataset.yaml: plain dicts of members, for a task encoder's cooker of that encoding."""
    content = {
        "__module__": "megatron.energon",
        "__class__": "CrudeWebdataset",
        "subflavors": {"encoding": encoding},
    }
    return yaml.dump(content, sort_keys=False).encode()


def info_json(counts: Mapping[str, int]) -> bytes:
    """.info.json: samples per shard, in shard order, under the version of the energon in use."""
    from megatron.energon import __version__

    content = {"energon_version": __version__, "shard_counts": dict(counts)}
    return json.dumps(content, indent=2).encode()


def split_yaml(shards: Sequence[PublishedShard], *, exclude: Sequence[str] = ()) -> bytes:
    """split.yaml: each split's shard names, braces for runs; a split without a shard is empty.
    `exclude`: what of them is not to be read."""
    from megatron.energon.bracecollapse import collapse

    parts = {
        split: collapse([shard.name for shard in shards if shard.split == split], keep_order=True)
        for split in SPLITS
    }
    content = {"split_parts": parts, "exclude": list(exclude)}
    return yaml.dump(content, sort_keys=False).encode()


def index_uuid(shards: Sequence[PublishedShard]) -> bytes:
    """index.uuid: changes with a shard's name or bytes, and with nothing else."""
    content = "\n".join(f"{shard.name} {shard.record.digest}" for shard in shards)
    return str(uuid.uuid5(UUID_NAMESPACE, content)).encode()


def offsets_idx(shard: PublishedShard) -> bytes:
    """A shard's .idx: where each sample starts, then where the last one ends, as uint64."""
    (starts,) = sample_columns(shard.samples, "offset")
    return struct.pack(f"<{len(starts) + 1}Q", *starts, shard.record.end_offset)


def write_index_sqlite(path: Path, shards: Sequence[PublishedShard]) -> None:
    """A new database at `path`, synced: one row per sample and one per member, shard by shard."""
    from megatron.energon.epathlib import EPath
    from megatron.energon.flavors.webdataset.indexing import SqliteIndexWriter

    try:
        with contextlib.closing(SqliteIndexWriter(EPath(path))) as writer:
            for number, shard in enumerate(shards):
                _append_shard(writer, number, read_samples(shard.samples))
    except sqlite3.OperationalError as error:
        number = errno.ENOSPC if "full" in str(error) else errno.EIO
        raise OSError(number, os.strerror(number), str(path)) from error
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _append_shard(writer: "SqliteIndexWriter", number: int, rows: Sequence[SampleRow]) -> None:
    """Rows of one shard. Parts go first: that opens the one transaction that `close` commits."""
    from megatron.energon.flavors.webdataset.prepare import IndexSample, IndexSamplePart

    writer.append_parts(
        [
            IndexSamplePart(
                tar_file_id=number,
                sample_index=place,
                part_name=part.name,
                content_byte_offset=part.offset,
                content_byte_size=part.size,
            )
            for place, row in enumerate(rows)
            for part in row.parts
        ]
    )
    writer.append_samples(
        [
            IndexSample(
                tar_file_id=number,
                sample_key=row.key,
                sample_index=place,
                byte_offset=row.offset,
                byte_size=row.size,
            )
            for place, row in enumerate(rows)
        ]
    )


def write_digests(path: Path, shards: Sequence[PublishedShard]) -> None:
    """A new table at `path`, synced: one row (shard, key, digest) per sample, shard by shard."""
    with path.open("wb") as file:
        with pq.ParquetWriter(file, DIGESTS_SCHEMA) as writer:
            for shard in shards:
                keys, digests = sample_columns(shard.samples, "key", "digest")
                columns = {"shard": [shard.name] * len(keys), "key": keys, "digest": digests}
                writer.write_table(pa.Table.from_pydict(columns, schema=DIGESTS_SCHEMA))
        file.flush()
        os.fsync(file.fileno())
