from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from braceexpand import braceexpand

from diffprep_assets.energon_prepare.exclude import runs_of
from diffprep_assets.energon_prepare.provenance import DatasetDescription, read_provenance
from diffprep_assets.energon_prepare.publish import FinishedShard, publish
from diffprep_assets.layout import Layout
from diffprep_resources.errors import DiffprepError

MakeShard = Callable[..., FinishedShard]

pytestmark = pytest.mark.filterwarnings("ignore:.*pin_memory")


def skipping(shard: FinishedShard, *ids: int, rule: str = "skip_list:bad") -> FinishedShard:
    return replace(shard, skipped=dict.fromkeys(ids, rule))


@pytest.mark.parametrize(
    ("ids", "skipped", "runs"),
    [
        (range(6), {1, 2, 4}, [(1, 2), (4, 4)]),
        (range(6), set(), []),
        (range(4), {0, 1, 2, 3}, [(0, 3)]),
        # An id that the shard does not hold may lie in a run, one that is to stay may not.
        ([1, 3, 4, 6], {1, 3, 6}, [(1, 3), (6, 6)]),
        # Ids that are far apart would make a range of keys that nobody has.
        ([1, 5, 10, 1_000_000], {1, 5, 10, 1_000_000}, [(1, 5), (10, 10), (1_000_000, 1_000_000)]),
        ([7, 3, 5], {3, 5, 7}, [(3, 7)]),
    ],
)
def test_runs_cover_the_skipped_and_nothing_that_stays(ids, skipped, runs) -> None:
    assert list(runs_of(ids, skipped=skipped)) == runs


def read(read_split, folder: Path) -> list[int]:
    return [int(key) for batch in read_split(folder) for key in batch["__key__"]]


def stamps(folder: Path) -> dict[str, int]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.stat().st_mtime_ns for path in found}


def test_a_skip_reaches_the_reader_without_a_tar_and_unskipping_brings_the_samples_back(
    layout: Layout, make_shard: MakeShard, description: DatasetDescription, read_split
) -> None:
    shards = [make_shard(0, [0, 1, 2, 3, 5]), make_shard(1, [6, 8]), make_shard(2, [9])]

    def put(shards: list[FinishedShard]) -> dict[str, int]:
        publish(layout, shards=shards, description=description, nested=False)
        return stamps(layout.output_dir)

    before = put(shards)
    skips = [skipping(shards[0], 1, 2, 3), skipping(shards[1], 6, 8), shards[2]]
    after = put(skips)
    assert {name for name in before if after[name] != before[name]} == {
        ".nv-meta/split.yaml",
        "dataset.json",
        "README.md",
    }
    exclude = yaml.safe_load((layout.nv_meta / "split.yaml").read_text())["exclude"]
    assert exclude == ["000000.tar/{0000000001..0000000003}", "000001.tar"]
    assert [key for entry in exclude for key in braceexpand(entry)] == [
        *(f"000000.tar/{key:010d}" for key in (1, 2, 3)),
        "000001.tar",
    ]
    assert read(read_split, layout.output_dir) == [0, 5, 9]
    counts = (read_provenance(layout.dataset_json) or {})["counts"]
    assert (counts["written"], counts["skipped"], counts["served"]) == (8, 5, 3)
    assert counts["skips"] == {"skip_list:bad": 5}
    put(shards)
    assert read(read_split, layout.output_dir) == [0, 1, 2, 3, 5, 6, 8, 9]


def test_a_train_split_that_is_skipped_whole_is_refused_and_nothing_is_touched(
    layout: Layout, make_shard: MakeShard, description: DatasetDescription
) -> None:
    shards = [make_shard(0, [0, 1]), make_shard(1, [2], split="val")]
    publish(layout, shards=shards, description=description, nested=False)
    before = stamps(layout.output_dir)
    with pytest.raises(DiffprepError, match=r"all of split train is skipped.*diffprep unskip demo"):
        publish(
            layout,
            shards=[skipping(shards[0], 0, 1), shards[1]],
            description=description,
            nested=False,
        )
    assert stamps(layout.output_dir) == before
