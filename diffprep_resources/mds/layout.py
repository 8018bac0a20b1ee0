"""How the bytes of an MDS v2 shard lie, and what its index says of it.

    shard    n u32 | offsets u32 [n + 1] | config, JSON | n samples
    config   version, format, compression, hashes, size_limit, column_names, column_encodings,
             column_sizes; names are sorted, sizes null where values differ in size
    sample   u32 for each column without a fixed size, its bytes | the columns' bytes

Little-endian; offsets count from the file's start, the last one is the file's size; columns go in
the order of their names. A shard holds its config, so its entry in index.json follows from the
shard alone. Source: mosaicml-streaming 0.13, base/format/mds/writer.py and base/format/base/
writer.py; every byte equals what its MDSWriter makes (tests/diffprep_resources/mds).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from diffprep_resources.errors import DiffprepError
from diffprep_resources.mds.encodings import encoded_size

VERSION = 2
LARGEST_BYTES = 2**32 - 1
INDEX_NAME = "index.json"
# The library checks it when a dataset is opened with `validate_hash="xxh3_128"`.
HASHES = ("xxh3_128",)


class DamagedShardError(DiffprepError):
    """Bytes that are no MDS shard, or not all of one; says what is wrong with them."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column: how its values are encoded, and their size in bytes where it is fixed."""

    name: str
    encoding: str
    size: int | None


@dataclass(frozen=True, slots=True)
class ShardConfig:
    """What stands in a shard's header: columns sorted by name, and hashes of the file."""

    columns: tuple[Column, ...]
    hashes: tuple[str, ...] = HASHES

    @classmethod
    def of(cls, encodings: Mapping[str, str]) -> "ShardConfig":
        """The config of columns given as name and encoding. Raises ValueError for an encoding that
        is not written."""
        return cls(
            tuple(
                Column(name, encodings[name], encoded_size(encodings[name]))
                for name in sorted(encodings)
            )
        )

    @property
    def json_value(self) -> dict[str, Any]:
        return {
            "version": VERSION,
            "format": "mds",
            "compression": None,
            "hashes": list(self.hashes),
            "size_limit": None,
            "column_names": [column.name for column in self.columns],
            "column_encodings": [column.encoding for column in self.columns],
            "column_sizes": [column.size for column in self.columns],
        }

    @property
    def json_bytes(self) -> bytes:
        """As it stands in the shard: sorted keys, JSON's own spaces."""
        return json.dumps(self.json_value, sort_keys=True).encode()


def parse_config(data: bytes) -> ShardConfig:
    """The config of a header's JSON. Raises DamagedShardError for what cannot be read here."""
    try:
        content = json.loads(data)
        if content["version"] != VERSION or content["format"] != "mds" or content["compression"]:
            raise ValueError("only uncompressed MDS of version 2 is read")
        names, encodings = content["column_names"], content["column_encodings"]
        columns = zip(names, encodings, content["column_sizes"], strict=True)
        config = ShardConfig(tuple(Column(*column) for column in columns), tuple(content["hashes"]))
        if any(column.size != encoded_size(column.encoding) for column in config.columns):
            raise ValueError("a column has another size than its encoding")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedShardError(f"its config cannot be read: {error}") from error
    return config


def index_entry(
    config: ShardConfig, *, basename: str, num_samples: int, size_bytes: int, digest: str
) -> dict[str, Any]:
    """What index.json says of one shard; `digest` is the xxh3_128 of the file."""
    return {
        **config.json_value,
        "samples": num_samples,
        "zip_data": None,
        "raw_data": {
            "basename": basename,
            "bytes": size_bytes,
            "hashes": dict.fromkeys(config.hashes, digest),
        },
    }


def index_bytes(entries: Sequence[Mapping[str, Any]]) -> bytes:
    """index.json of a folder's shards, in their order."""
    content = {"version": VERSION, "shards": [dict(entry) for entry in entries]}
    return json.dumps(content, sort_keys=True).encode()
