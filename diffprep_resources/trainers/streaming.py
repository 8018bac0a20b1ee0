"""What a trainer that reads MDS with mosaicml-streaming puts before its dataset class.

    from streaming import Stream, StreamingDataset
    from diffprep_resources.trainers.streaming import SkipLists, register_bf16

    class Dataset(SkipLists, StreamingDataset): ...

    register_bf16()                 # only for latents of bf16 models; PRX does it itself
    dataset = Dataset(streams=[Stream(local=folder) for folder in folders],
                      batch_size=8, batching_method="per_stream")

Skip lists are files beside the shards, `<shard>.skip.<list>.json`, holding {"skip": [numbers of
samples in that shard]}; all of a shard's lists count together. Tried with mosaicml-streaming 0.13
and numpy 2.1. It needs nothing else, so that it runs in the trainer's own environment.
"""

import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import torch

logger = logging.getLogger(__name__)


class SkipLists:
    """Leaves skipped samples out of every epoch: a mixin, before a StreamingDataset class.

    Samples go before batches are formed, so no batch is short or of mixed shapes. Lists are read
    when the dataset is made; a change counts for the next one. A state_dict belongs to the lists
    that it was made with. Raises ValueError for a list that does not fit its shard.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._skipped_ids = np.empty(0, np.int64)
        super().__init__(*args, **kwargs)
        self.load_skips()

    def load_skips(self) -> None:
        """Read the lists of every stream's shards; lengths follow from them."""
        dataset: Any = self
        skipped = [np.empty(0, np.int64)]
        kept = []
        for number, stream in enumerate(dataset.streams):
            first = int(dataset.shard_offset_per_stream[number])
            shards = range(first, first + int(dataset.shards_per_stream[number]))
            found = _ids_skipped_in(dataset, shards, sidecars=_sidecars(stream))
            skipped.append(found)
            samples = int(dataset.samples_per_stream[number])
            if len(found) == samples:
                logger.warning("all of %s is skipped: leave that folder out", stream.local)
            # Exact where every sample is drawn equally often; else what an epoch has on average.
            kept.append(round(stream.choose * (samples - len(found)) / samples))
        self._skipped_ids = np.concatenate(skipped)
        dataset.epoch_size = sum(kept)
        dataset.length = -(-dataset.epoch_size // dataset._parallel_rank_world.num_ranks)

    def resample_streams(
        self, epoch: int, stream_id: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The library's shuffle units and sample ids of an epoch, less what is skipped."""
        dataset: Any = super()
        units, ids = dataset.resample_streams(epoch, stream_id)
        kept = ~np.isin(ids, self._skipped_ids)
        unit_of_id = np.repeat(np.arange(len(units)), units)
        units = np.bincount(unit_of_id[kept], minlength=len(units))
        ids = ids[kept]
        if stream_id is None:
            # `random` batching partitions epoch_size places of these very ids.
            self.epoch_size = len(ids)
        return units[units > 0].astype(np.int64), ids


def register_bf16() -> None:
    """Let the library decode columns of encoding `bf16` to torch.bfloat16 tensors. One that is
    registered already, as PRX does on import, stays."""
    # "could not be resolved": only the trainer has it.
    from streaming.base.format.mds import encodings  # pyright: ignore[reportMissingImports]

    class BFloat16(encodings.Encoding):
        def encode(self, obj: "torch.Tensor") -> bytes:
            import torch

            shape = np.array(obj.shape, "<i4")
            bits = obj.contiguous().view(torch.uint16).numpy()
            return np.uint32(obj.ndim).tobytes() + shape.tobytes() + bits.tobytes()

        def decode(self, data: bytes) -> "torch.Tensor":
            import torch

            ndim = int(np.frombuffer(data, "<u4", 1)[0])
            shape = np.frombuffer(data, "<i4", ndim, 4)
            bits = np.frombuffer(data, np.uint16, offset=4 + 4 * ndim).copy()
            return torch.from_numpy(bits).view(torch.bfloat16).reshape(shape.tolist())

    encodings._encodings.setdefault("bf16", BFloat16)


def _sidecars(stream: Any) -> dict[str, list[Path]]:
    """The lists of a stream's shards, by shard name: beside the shards, and at their origin if that
    is a folder of this machine."""
    found: dict[str, list[Path]] = {}
    for place in (stream.local, stream.remote):
        if place and "://" not in place:
            for path in sorted(Path(place, stream.split or "").glob("*.skip.*.json")):
                found.setdefault(path.name.partition(".skip.")[0], []).append(path)
    return found


def _ids_skipped_in(
    dataset: Any, shards: range, *, sidecars: Mapping[str, Sequence[Path]]
) -> np.ndarray:
    """int64, sorted: the dataset's ids of the skipped samples of some shards."""
    ids: set[int] = set()
    for shard in shards:
        samples = int(dataset.samples_per_shard[shard])
        first = int(dataset.sample_offset_per_shard[shard])
        for path in sidecars.get(dataset.shards[shard].raw_data.basename, ()):
            for number in json.loads(path.read_bytes())["skip"]:
                if type(number) is not int or not 0 <= number < samples:
                    raise ValueError(f"{path}: its shard has {samples} samples, got {number!r}")
                ids.add(first + number)
    return np.array(sorted(ids), np.int64)
