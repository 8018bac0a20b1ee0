"""Readers of a dataset that is published anew under them."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from megatron.energon import WorkerConfig, get_loader, get_train_dataset

from diffprep_assets.energon_prepare.provenance import DatasetDescription
from diffprep_assets.energon_prepare.publish import FinishedShard, publish
from diffprep_assets.layout import Layout
from diffprep_resources.trainers.energon import PreencodedTaskEncoder

REPUBLICATIONS = 30


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
def test_a_pass_during_republications_is_one_version_whole_or_a_missing_file(
    layout: Layout,
    make_shard: Callable[..., FinishedShard],
    description: DatasetDescription,
    read_split,
) -> None:
    def put(version: int) -> list[str]:
        ids = [[0, 1], [2, 3], [4, 5 + version]]
        changing = make_shard(1, ids[1], version=f"v{version}")
        last = make_shard(2, ids[2], version=f"v{version}")
        publish(
            layout,
            shards=[make_shard(0, ids[0]) if version == 0 else fixed[0], changing, last],
            description=description,
            nested=False,
        )
        return captions()

    def captions() -> list[str]:
        batches = read_split(layout.output_dir)
        return [caption for batch in batches for caption in batch["captions"]]

    fixed = [make_shard(0, [0, 1])]
    versions = {tuple(put(0))}
    reader = Reader(captions)
    thread = threading.Thread(target=reader)
    thread.start()
    expected = set(versions)
    for version in range(1, REPUBLICATIONS):
        shards = [
            fixed[0],
            make_shard(1, [2, 3], version=f"v{version}"),
            make_shard(2, [4, 5 + version], version=f"v{version}"),
        ]
        expected.add(
            tuple(
                f"picture {sample_id} of {name} \u00e9"
                for sample_id, name in [
                    (0, "v1"),
                    (1, "v1"),
                    (2, f"v{version}"),
                    (3, f"v{version}"),
                    (4, f"v{version}"),
                    (5 + version, f"v{version}"),
                ]
            )
        )
        publish(layout, shards=shards, description=description, nested=False)
    reader.stop.set()
    thread.join()
    assert len(reader.passes) > 5
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
        for _ in range(100):
            seen += next(loader)["captions"]
    assert all(" of v1 " in caption for caption in seen)
