"""Readers of a dataset that is published anew under them."""

import itertools
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from megatron.energon import WorkerConfig, get_loader, get_train_dataset

from diffprep_assets.energon_prepare.provenance import DatasetDescription
from diffprep_assets.energon_prepare.publish import FinishedShard, publish
from diffprep_assets.layout import Layout
from diffprep_resources.trainers.energon import PreencodedTaskEncoder


@dataclass
class Reader:
    """Reads whole passes until told to stop; keeps what each held, or how it failed."""

    read: Callable[[], list[str]]
    stop: threading.Event = field(default_factory=threading.Event)
    passes: set[tuple[str, ...]] = field(default_factory=set)
    errors: list[BaseException] = field(default_factory=list)

    def __call__(self) -> None:
        while not self.stop.is_set():
            try:
                self.passes.add(tuple(self.read()))
            except Exception as error:
                self.errors.append(error)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("republications", [12, pytest.param(100, marks=pytest.mark.long)])
def test_a_pass_during_republications_is_one_version_whole_or_a_missing_file(
    layout: Layout,
    make_shard: Callable[..., FinishedShard],
    description: DatasetDescription,
    read_split,
    republications: int,
) -> None:
    def captions() -> list[str]:
        batches = read_split(layout.output_dir)
        return [caption for batch in batches for caption in batch["captions"]]

    def shards(version: int) -> list[FinishedShard]:
        name = f"v{version}"
        return [fixed, make_shard(1, [2, 3], version=name), make_shard(2, [version], version=name)]

    fixed = make_shard(0, [0, 1], version="always")
    publish(layout, shards=shards(100), description=description, nested=False)
    reader = Reader(captions)
    thread = threading.Thread(target=reader)
    thread.start()
    for version in range(101, 100 + republications):
        publish(layout, shards=shards(version), description=description, nested=False)
    reader.stop.set()
    thread.join()
    expected = {
        tuple(
            f"picture {sample_id} of {name} \u00e9"
            for sample_id, name in [(0, "always"), (1, "always")]
            + [(sample_id, f"v{version}") for sample_id in (2, 3, version)]
        )
        for version in range(100, 100 + republications)
    }
    assert len(reader.passes) > 3
    assert reader.passes <= expected
    assert {type(error) for error in reader.errors} <= {FileNotFoundError}


@pytest.mark.filterwarnings("ignore")
def test_a_loader_opened_before_yields_old_samples_until_it_misses_a_file(
    layout: Layout, make_shard: Callable[..., FinishedShard], description: DatasetDescription
) -> None:
    shards = [make_shard(number, [2 * number, 2 * number + 1]) for number in range(4)]
    publish(layout, shards=shards, description=description, nested=False)
    dataset = get_train_dataset(
        layout.output_dir,
        worker_config=WorkerConfig(rank=0, world_size=1, num_workers=0),
        batch_size=1,
        shuffle_buffer_size=None,
        max_samples_per_sequence=None,
        task_encoder=PreencodedTaskEncoder(),
    )
    loader = iter(get_loader(dataset, watchdog_timeout_seconds=None))
    seen = list(next(loader)["captions"])
    rewritten = [
        make_shard(number, [2 * number, 2 * number + 1], version="v2") for number in range(4)
    ]
    publish(layout, shards=rewritten, description=description, nested=False)
    with pytest.raises(FileNotFoundError):
        seen.extend(batch["captions"][0] for batch in itertools.islice(loader, 100))
    assert all(" of v1 " in caption for caption in seen)
