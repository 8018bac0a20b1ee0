"""Reads MDS folders with mosaicml-streaming and our mixin; run by a Python that has the library:

    PYTHONPATH=. python tests/diffprep_resources/trainers/streaming_side.py ROOT BATCH_SIZE

Says as JSON what came out of all folders below, by way of reading: `len`, and batches of
(id, width, height)."""

import json
import sys
from pathlib import Path
from typing import Any

from streaming import Stream, StreamingDataset  # pyright: ignore[reportMissingImports]
from streaming.base.util import (  # pyright: ignore[reportMissingImports]
    clean_stale_shared_memory,
)
from torch.utils.data import DataLoader

from diffprep_resources.trainers.streaming import SkipLists, register_bf16

BATCH_SIZE = int(sys.argv[2])


class Dataset(SkipLists, StreamingDataset):
    pass


def opened(folders: list[Path], kind: type = Dataset, **settings: Any) -> Any:
    clean_stale_shared_memory()
    return kind(
        streams=[Stream(local=str(folder)) for folder in folders],
        batch_size=BATCH_SIZE,
        num_canonical_nodes=1,
        **settings,
    )


def batches(dataset: Any) -> list[list[tuple[str, int, int]]]:
    loader = DataLoader(dataset, batch_size=BATCH_SIZE, collate_fn=list)
    return [[(row["id"], *row["image"].size) for row in batch] for batch in loader]


def read(folders: list[Path], kind: type = Dataset, **settings: Any) -> dict[str, Any]:
    dataset = opened(folders, kind, **settings)
    return {"len": len(dataset), "batches": batches(dataset)}


def resumed(folders: list[Path]) -> dict[str, Any]:
    """A whole pass, and one that goes on after four samples by a new dataset's state."""
    settings = {"batching_method": "per_stream", "shuffle": True}
    dataset = opened(folders, **settings)
    whole = batches(dataset)
    state = dataset.state_dict(4, True)
    del dataset
    again = opened(folders, **settings)
    again.load_state_dict(state)
    return {"whole": whole, "rest": batches(again)}


def main(root: Path) -> None:
    register_bf16()
    folders = sorted(path.parent for path in root.rglob("index.json"))
    found = {
        "per_stream": read(folders, batching_method="per_stream", shuffle=True),
        "random": read(folders[:1], batching_method="random", shuffle=True),
        "stock": read(folders, StreamingDataset, batching_method="per_stream", shuffle=False),
        "checked": read(folders[:1], validate_hash="xxh3_128", shuffle=False),
        "resumed": resumed(folders),
    }
    values = next(iter(opened(folders[:1], shuffle=False)))
    found["values"] = {
        name: value.tolist() if hasattr(value, "tolist") else value
        for name, value in values.items()
        if name != "image"
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
