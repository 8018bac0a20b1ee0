"""A sample's encoded rows, read back from a finished FastVideo shard as the row files had them."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import xxhash

from diffprep_assets.shard.record import SampleRow, ShardRecord
from diffprep_resources.encoders.base import Workload
from diffprep_resources.fastvideo.reading import read_row
from diffprep_resources.storage.parquet_tables import DamagedTableError

if TYPE_CHECKING:
    import torch

# By encode stage, what the tensors of its row files are called in FastVideo's files.
STORED_NAMES = {
    "encode_latents": {"latents": "vae_latent"},
    "encode_text": {"prompt_embeds": "text_embedding"},
    "encode_first_frame": {"first_frame_latents": "first_frame_latent", "pil_image": "pil_image"},
    "encode_clip": {"clip_feature": "clip_feature"},
}
TEXT_LENGTH = "model.t5_max_length"


def row_digest(tensors: Mapping[str, np.ndarray | None]) -> str:
    """xxh3_128 of a row's tensors, names and shapes included, 32 hex digits."""
    digest = xxhash.xxh3_128()
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {None if tensor is None else tensor.shape}\n".encode())
        if tensor is not None:
            digest.update(np.ascontiguousarray(tensor).data)
    return digest.hexdigest()


def stored_tensors(
    folder: Path, record: ShardRecord, row: SampleRow, *, stage: str
) -> "dict[str, torch.Tensor] | None":
    """The sample's tensors of one encode stage, float32, bit for bit as they were encoded; those
    that the dataset leaves empty are not among them. None where the bytes are not those that were
    written.

    The text comes padded with zeros to its full length, with `prompt_length`, int32 [1].
    """
    import torch

    workload: Workload = record.settings["shard"]["video.workload"]
    part = row.parts[0]
    try:
        found = read_row(folder / part.name, number=part.offset, workload=workload)
    except (FileNotFoundError, DamagedTableError, IndexError, ValueError):
        return None
    if found.id != row.key or row_digest(found.tensors) != row.digest:
        return None
    tensors: dict[str, torch.Tensor] = {}
    for ours, theirs in STORED_NAMES[stage].items():
        values = found.tensors.get(theirs)
        if values is not None:
            tensors[ours] = torch.from_numpy(values.copy())
    if stage == "encode_text":
        text = tensors["prompt_embeds"]
        padded = text.new_zeros(record.settings[stage][TEXT_LENGTH], text.shape[1])
        padded[: len(text)] = text
        length = torch.tensor([len(text)], dtype=torch.int32)
        tensors = {"prompt_embeds": padded, "prompt_length": length}
    return tensors
