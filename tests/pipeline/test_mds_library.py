"""A whole dataset, skipped samples among it, read by Mosaic's own library in an environment of its
own, and by energon beside it."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from megatron.energon import WorkerConfig, get_loader, get_val_dataset

from diffprep_resources.trainers.energon import RawTaskEncoder

ROOT = Path(__file__).parents[2]
SIDE = ROOT / "tests/diffprep_resources/trainers/streaming_side.py"

pytestmark = pytest.mark.streaming


@pytest.fixture
def library_python() -> Path:
    return Path(os.environ.get("DIFFPREP_STREAMING_PYTHON", ROOT / ".venv-streaming/bin/python"))


def read_by_the_library(python: Path, folder: Path) -> dict[str, Any]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [python, SIDE, folder, "1"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def read_by_energon(folder: Path) -> dict[str, tuple[int, int]]:
    """Size by key."""
    dataset = get_val_dataset(
        folder,
        split_part="train",
        worker_config=WorkerConfig(rank=0, world_size=1, num_workers=0),
        batch_size=1,
        task_encoder=RawTaskEncoder(),
    )
    return {
        batch["__key__"][0].rpartition("/")[2]: tuple(batch["images"].shape[:1:-1])
        for batch in get_loader(dataset, watchdog_timeout_seconds=None)
    }


def test_the_library_serves_what_energon_serves(project: Any, library_python: Path):
    project.write_pictures(range(12))
    project.write_recipe(
        image={"image_size": None, "variable_size": True, "max_size": 128},
        output={"formats": ["mds", "raw"], "shard_size": 4},
    )
    assert project.run().ok
    skipped = project.folder / "list.txt"
    skipped.write_text("images/p001.jpg\nimages/p006.png\n")
    project.write_recipe_over(curate={"skip_lists": [str(skipped)]})
    assert project.run().ok
    output = project.dataset().layout.output_dir
    found = read_by_the_library(library_python, output / "train")
    rows = {row[0]: tuple(row[1:]) for batch in found["per_stream"]["batches"] for row in batch}
    assert len(rows) == found["per_stream"]["len"] == 10
    assert rows == read_by_energon(output / "raw")
    assert sum(map(len, found["stock"]["batches"])) == 12
    project.write_recipe_over(curate={"skip_lists": None})
    assert project.run().ok
    assert read_by_the_library(library_python, output / "train")["per_stream"]["len"] == 12
