"""Layout per_bucket: each bucket's folder a dataset, and a metadataset over them."""

import itertools
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from diffprep_assets.energon_prepare.metadata_files import EmptyEncodings
from diffprep_assets.energon_prepare.provenance import DatasetDescription
from diffprep_assets.energon_prepare.publish import FinishedShard, publish
from diffprep_assets.layout import Layout

MakeShard = Callable[..., FinishedShard]
WIDE, TALL = "64/64x32", "64/32x64"

pytestmark = pytest.mark.filterwarnings("ignore:.*pin_memory")


@pytest.fixture
def shards(make_shard: MakeShard) -> list[FinishedShard]:
    return [
        make_shard(0, [0, 1, 2]),
        make_shard(1, [3], split="val"),
        make_shard(0, [4, 5], size=(32, 64)),
    ]


@pytest.fixture
def put(layout: Layout, description: DatasetDescription, empty: EmptyEncodings) -> Callable:
    def publish_them(shards: list[FinishedShard], layout_name: str = "per_bucket", **options):
        described = replace(description, layout=layout_name)  # type: ignore[arg-type]
        given = {"nested": True, "empty": empty, **options}
        return publish(layout, shards=shards, description=described, **given)

    return publish_them


def files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def stamps(folder: Path) -> dict[Path, tuple[int, int]]:
    """Inode and modification time of every tar and .idx."""
    tars = folder.rglob("*.tar*")
    return {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in tars}


def keys(batches: list[dict]) -> list[int]:
    return sorted(int(key) for batch in batches for key in batch["__key__"])


def test_each_buckets_folder_reads_by_itself_and_the_metadataset_reads_all(
    layout: Layout, shards: list[FinishedShard], put, read_split
) -> None:
    put(shards)
    assert keys(read_split(layout.output_dir / WIDE)) == [0, 1, 2]
    assert keys(read_split(layout.output_dir / WIDE, "val")) == [3]
    assert keys(read_split(layout.output_dir / TALL)) == [4, 5]
    assert keys(read_split(layout.metadataset)) == [0, 1, 2, 4, 5]
    assert keys(read_split(layout.metadataset, "val")) == [3]
    assert not layout.nv_meta.exists()
    for bucket in (WIDE, TALL):
        linked = layout.output_dir / bucket / "empty_encodings/t5_empty.npy"
        assert linked.samefile(layout.published_empty_encodings / "t5_empty.npy")


def test_the_blend_weighs_a_bucket_by_what_it_serves_and_names_none_that_serves_nothing(
    layout: Layout, shards: list[FinishedShard], put, read_split
) -> None:
    shards[0] = replace(shards[0], skipped={1: "skip_list:bad"})
    shards[2] = replace(shards[2], skipped={4: "dedup", 5: "dedup"})
    put(shards)
    splits = yaml.safe_load(layout.metadataset.read_text())["splits"]
    assert splits == {
        "train": {"blend": [{"path": f"./{WIDE}", "weight": 2}]},
        "val": {"blend": [{"path": f"./{WIDE}", "weight": 1}]},
    }
    assert keys(read_split(layout.metadataset)) == [0, 2]
    assert keys(read_split(layout.output_dir / WIDE)) == [0, 2]


def test_switching_the_layout_touches_no_shard_and_leaves_nothing_stale(
    layout: Layout, shards: list[FinishedShard], put, read_split
) -> None:
    put(shards, "one")
    one = files(layout.output_dir)
    tars = stamps(layout.output_dir)
    put(shards)
    per_bucket = files(layout.output_dir)
    assert not any(name.startswith(".nv-meta") for name in per_bucket)
    assert stamps(layout.output_dir) == tars
    put(shards, "one")
    assert files(layout.output_dir) == one
    assert keys(read_split(layout.output_dir)) == [0, 1, 2, 4, 5]
    put(shards)
    assert files(layout.output_dir) == per_bucket
    put(shards, finalize=False)
    assert files(layout.output_dir) == per_bucket
    put(shards, "one", finalize=False)
    assert files(layout.output_dir) == {n for n in per_bucket if n.endswith(".tar")}


def test_a_bucket_that_is_gone_takes_its_metadata_along(
    layout: Layout, shards: list[FinishedShard], put, read_split
) -> None:
    put(shards)
    put(shards[:2])
    assert not (layout.output_dir / TALL).exists()
    assert keys(read_split(layout.metadataset)) == [0, 1, 2]


def test_publishing_again_writes_nothing(layout: Layout, shards: list[FinishedShard], put) -> None:
    put(shards)
    before = {p: p.stat().st_ino for p in layout.output_dir.rglob("*")}
    put(shards)
    assert {p: p.stat().st_ino for p in layout.output_dir.rglob("*")} == before


def test_metadata_that_somebody_made_stays(
    layout: Layout, shards: list[FinishedShard], put
) -> None:
    put(shards, "one")
    layout.metadataset.write_text("mine")
    theirs = layout.output_dir / WIDE / ".nv-meta" / "split.yaml"
    theirs.parent.mkdir()
    theirs.write_text("mine")
    put(shards, "one")
    assert theirs.read_text() == "mine"
    theirs.unlink()
    put(shards)
    put(shards, "one", finalize=False)
    assert layout.metadataset.read_text() == "mine"


def test_without_folders_for_buckets_the_output_folder_itself_is_the_one_dataset(
    layout: Layout, shards: list[FinishedShard], put, read_split
) -> None:
    put(shards[:2], nested=False)
    assert layout.nv_meta.is_dir()
    assert not layout.metadataset.exists()
    assert keys(read_split(layout.output_dir)) == [0, 1, 2]


@pytest.mark.filterwarnings("ignore")
def test_who_opens_the_metadataset_during_republications_finds_no_mixture(
    layout: Layout, put, make_shard: MakeShard, read_split
) -> None:
    """A sample moves from bucket to bucket and back: a mixture would hold it twice, or not."""
    versions = [
        [make_shard(0, [0, 1]), make_shard(0, [2], size=(32, 64))],
        [make_shard(1, [0]), make_shard(1, [1, 2], size=(32, 64))],
    ]
    put(versions[0])
    seen: Counter[str] = Counter()
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            try:
                seen[str(keys(read_split(layout.metadataset)))] += 1
            except Exception as error:
                seen[type(error).__name__] += 1

    reader = threading.Thread(target=read)
    reader.start()
    for version in itertools.islice(itertools.cycle(versions[::-1]), 6):
        put(version)
    stop.set()
    reader.join()
    assert seen["[0, 1, 2]"] > 0
    assert all(name == "[0, 1, 2]" or "Error" in name for name in seen), seen
    assert not [name for name in seen if name in ("KeyError", "AssertionError")], seen
