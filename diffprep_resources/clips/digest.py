"""The digest of a clip's whole bytes, of which no more than a chunk is in memory."""

from pathlib import Path

import xxhash

from diffprep_resources.clips.opening import ClipSource

_CHUNK_BYTES = 1 << 20


def clip_digest(source: ClipSource) -> str:
    """xxh3 of all bytes, 32 hexadecimal digits; a seekable file is left at its end."""
    if isinstance(source, Path):
        with source.open("rb") as file:
            return clip_digest(file)
    source.seek(0)
    hasher = xxhash.xxh3_128()
    while chunk := source.read(_CHUNK_BYTES):
        hasher.update(chunk)
    return hasher.hexdigest()
