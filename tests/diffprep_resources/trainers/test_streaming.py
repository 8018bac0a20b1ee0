"""The mixin by itself, and in the library's own hands where there is an environment with it."""

import io
import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from diffprep_resources.mds.layout import INDEX_NAME, ShardConfig, index_bytes, index_entry
from diffprep_resources.mds.writer import ShardWriter
from diffprep_resources.trainers.streaming import SkipLists

ROOT = Path(__file__).parents[3]
GOLDEN = ROOT / "tests/diffprep_resources/mds/golden"


def skip(folder: Path, shard: str, name: str, numbers: Sequence[object]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{shard}.skip.{name}.json").write_text(json.dumps({"skip": list(numbers)}))


class Library:
    """What the mixin asks of the library's class: shards of 4 and 3 samples in a stream, one of 5
    in another; each sample once in an epoch."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self.streams = [
            SimpleNamespace(local=str(folder), remote=None, split="", choose=choose)
            for folder, choose in zip(folders, (7, 5), strict=True)
        ]
        names = ("s0.mds", "s1.mds", "s0.mds")
        self.shards = [SimpleNamespace(raw_data=SimpleNamespace(basename=name)) for name in names]
        self.samples_per_shard = np.array([4, 3, 5])
        self.sample_offset_per_shard = np.array([0, 4, 7])
        self.shard_offset_per_stream, self.shards_per_stream = np.array([0, 2]), np.array([2, 1])
        self.samples_per_stream = np.array([7, 5])
        self._parallel_rank_world = SimpleNamespace(num_ranks=2)
        self.epoch_size, self.length = 12, 6

    def resample_streams(self, epoch: int, stream_id: int | None = None) -> tuple[Any, Any]:
        units = {0: [4, 3], 1: [5], None: [4, 3, 5]}[stream_id]
        ids = {0: np.arange(7), 1: np.arange(7, 12), None: np.arange(12)}[stream_id]
        return np.array(units), ids


class Skipping(SkipLists, Library):
    pass


def test_the_lists_of_a_shard_count_together(tmp_path: Path):
    skip(tmp_path / "a", "s0.mds", "blurry", [1, 2])
    skip(tmp_path / "a", "s0.mds", "dedup", [2])
    skip(tmp_path / "a", "s1.mds", "blurry", [0, 1, 2])
    skip(tmp_path / "b", "s0.mds", "blurry", [4])
    dataset = Skipping([tmp_path / "a", tmp_path / "b"])
    units, ids = dataset.resample_streams(0)
    assert ids.tolist() == [0, 3, 7, 8, 9, 10]
    assert units.tolist() == [2, 4]
    assert (dataset.epoch_size, dataset.length) == (6, 3)
    units, ids = dataset.resample_streams(0, 1)
    assert (units.tolist(), ids.tolist()) == ([4], [7, 8, 9, 10])


def test_without_lists_nothing_is_left_out(tmp_path: Path):
    dataset = Skipping([tmp_path, tmp_path])
    assert dataset.resample_streams(0)[1].tolist() == list(range(12))
    assert (dataset.epoch_size, dataset.length) == (12, 6)


@pytest.mark.parametrize("number", [4, -1, 1.0, True, "1"])
def test_a_list_that_does_not_fit_its_shard_is_refused(tmp_path: Path, number: object):
    skip(tmp_path, "s0.mds", "blurry", [number])
    with pytest.raises(ValueError, match="blurry"):
        Skipping([tmp_path, tmp_path / "none"])


# -- with the library -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def library_python() -> str:
    python = os.environ.get("DIFFPREP_STREAMING_PYTHON", ROOT / ".venv-streaming/bin/python")
    if not Path(python).exists():
        pytest.fail(f"no {python}: `make streaming-env`, or set DIFFPREP_STREAMING_PYTHON")
    return str(python)


def run_there(python: str, script: Path, *arguments: object) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [python, script, *map(str, arguments)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.streaming
def test_the_golden_shard_is_what_the_library_writes(library_python: str, tmp_path: Path):
    run_there(library_python, GOLDEN / "samples.py", tmp_path / "made")
    for name in ("shard.00000.mds", INDEX_NAME):
        assert (tmp_path / "made" / name).read_bytes() == (GOLDEN / name).read_bytes()


def picture(number: int, *, size: tuple[int, int], image_format: str) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", size, (number * 10, 0, 0)).save(buffer, image_format)
    return buffer.getvalue()


def write_folder(folder: Path, counts: Sequence[int], *, size: tuple[int, int]) -> list[str]:
    """Ids of the samples in a folder of shards with so many samples each; JPEG, PNG and WebP."""
    config = ShardConfig.of(
        {"image": "jpeg", "id": "str", "width": "int", "latent": "bf16", "mask": "ndarray"}
    )
    folder.mkdir()
    entries, ids = [], []
    for shard, count in enumerate(counts):
        # Numbers with gaps and a rewrite's count, as they are published.
        path = folder / f"shard.{shard * 3:06d}-1.mds"
        with path.open("w+b") as file:
            writer = ShardWriter(file, config=config, max_samples=count + 2)
            for number in range(count):
                ids.append(f"{folder.name}{shard}{number}")
                image_format = ("JPEG", "PNG", "WEBP")[number % 3]
                writer.add(
                    {
                        "image": picture(number, size=size, image_format=image_format),
                        "id": ids[-1],
                        "width": size[0],
                        "latent": np.array([[0x3F80, 0xC000]], np.uint16),
                        "mask": np.array([1, 0], np.uint8),
                    }
                )
            summary = writer.close()
        entries.append(
            index_entry(
                config,
                basename=path.name,
                num_samples=count,
                size_bytes=summary.size_bytes,
                digest=summary.digest,
            )
        )
    (folder / INDEX_NAME).write_bytes(index_bytes(entries))
    return ids


@pytest.fixture(scope="module")
def came_out(
    library_python: str, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, Any], set[str], set[str]]:
    """What the library read of two folders, the ids of all samples, and of the skipped ones."""
    root = tmp_path_factory.mktemp("mds")
    ids = write_folder(root / "a", [5, 4, 4], size=(32, 16))
    ids += write_folder(root / "b", [8], size=(16, 32))
    skip(root / "a", "shard.000000-1.mds", "blurry", [0, 3])
    skip(root / "a", "shard.000003-1.mds", "blurry", [0, 1, 2, 3])
    skip(root / "a", "shard.000000-1.mds", "dedup", [3, 4])
    skip(root / "b", "shard.000000-1.mds", "dedup", [7, 6])
    skipped = {"a00", "a03", "a04", "a10", "a11", "a12", "a13", "b07", "b06"}
    side = Path(__file__).with_name("streaming_side.py")
    return json.loads(run_there(library_python, side, root, 2)), set(ids), skipped


def ids_of(batches: list[list[list[Any]]]) -> list[str]:
    return [row[0] for batch in batches for row in batch]


@pytest.mark.streaming
@pytest.mark.parametrize("way", ["per_stream", "random", "checked"])
def test_skipped_samples_never_come_out_and_all_others_do(came_out, way: str):
    found, ids, skipped = came_out
    wanted = {id for id in ids - skipped if way == "per_stream" or id.startswith("a")}
    assert sorted(ids_of(found[way]["batches"])) == sorted(wanted)
    assert found[way]["len"] == len(wanted)


@pytest.mark.streaming
def test_without_the_mixin_skipped_samples_come_out(came_out):
    found, ids, skipped = came_out
    assert skipped <= set(ids_of(found["stock"]["batches"])) <= ids


@pytest.mark.streaming
def test_no_batch_mixes_sizes(came_out):
    for batch in came_out[0]["per_stream"]["batches"]:
        assert len({(width, height) for _, width, height in batch}) == 1
        assert len(batch) == 2


@pytest.mark.streaming
def test_a_state_goes_on_where_it_was(came_out):
    found = came_out[0]["resumed"]
    assert found["rest"] == found["whole"][2:]


@pytest.mark.streaming
def test_every_column_comes_back_as_it_was_written(came_out):
    values = came_out[0]["values"]
    assert values == {"id": "a01", "width": 32, "latent": [[1.0, -2.0]], "mask": [1, 0]}
