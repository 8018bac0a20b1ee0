"""Fingerprints: the hash of everything that decides a partition's bytes at a stage, and no more.

Each stage's file carries its fingerprint; the same text is its Dagster data version. A rerun
compares the two. Device, batch size, worker counts, paths and mount points are in none of them.
"""

import json
from collections.abc import Mapping
from typing import Any

import xxhash

# Raise a stage's version when the bytes that it writes for the same input change.
FORMAT_VERSIONS = {
    "source_index": "1",
    "download": "1",
    "bucket": "1",
    "source_columns": "1",
    "picture_hash": "1",
    "curate": "1",
    "shard_plan": "1",
    "encode_latents": "2",
    "encode_text": "1",
    "encode_first_frame": "1",
    "encode_clip": "1",
    "shard": "1",
    "shard_raw": "1",
    "shard_mds": "1",
    "shard_energon_video": "1",
    "energon_prepare": "1",
    "raw_prepare": "1",
    "mds_prepare": "1",
    "fastvideo_prepare": "1",
    "energon_video_prepare": "1",
    "validate": "1",
}


def digest_of(value: Any) -> str:
    """32 hex digits of a JSON value; the order of keys plays no part."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return xxhash.xxh3_128_hexdigest(text.encode())


def fingerprint(
    stage: str, *, settings: Mapping[str, Any], inputs: Mapping[str, str | None]
) -> str:
    """The fingerprint of one partition of `stage`, or of the whole stage.

    `settings` are the recipe fields and model identities that the stage reads, by dotted name;
    `inputs` the fingerprints or digests of what it reads, by stage or kind.
    """
    return digest_of([stage, FORMAT_VERSIONS[stage], dict(settings), dict(inputs)])
