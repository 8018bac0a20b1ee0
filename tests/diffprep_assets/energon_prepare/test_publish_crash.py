"""A publication killed before each of its writes, links, renames and unlinks, then run again."""

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from diffprep_assets.energon_prepare.metadata_files import EmptyEncodings
from diffprep_assets.energon_prepare.provenance import DatasetDescription
from diffprep_assets.energon_prepare.publish import FinishedShard, publish
from diffprep_assets.layout import Layout

STEPS = ("link", "replace", "unlink", "fsync", "rmdir", "mkdir")
KILLED = 9


def killed_before(step: int, action: Callable[[], object]) -> bool:
    """True when `action`, in a process of its own, was ended just before its nth file operation."""
    child = os.fork()
    if child == 0:
        calls: Iterator[int] = iter(range(1_000_000))
        for name in STEPS:
            setattr(os, name, _counted(getattr(os, name), calls, step))
        try:
            action()
        except BaseException:
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in (0, KILLED)
    return code == KILLED


def _counted(call: Callable, calls: Iterator[int], step: int) -> Callable:
    def counted(*args: object, **options: object) -> object:
        if next(calls) == step:
            os._exit(KILLED)
        return call(*args, **options)

    return counted


def content(folder: Path) -> dict[str, bytes]:
    """Every file's bytes, but for the index, whose rows test_index compares."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != "index.sqlite"
    }


def captions(read_split, folder: Path) -> list[str]:
    return [caption for batch in read_split(folder) for caption in batch["captions"]]


def copy_of(saved: Path, tmp_path: Path) -> None:
    """`saved` (storage and out) put back, hard links included."""
    for name in ("storage", "out"):
        shutil.rmtree(tmp_path / name, ignore_errors=True)
        shutil.copytree(saved / name, tmp_path / name, copy_function=os.link)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("stride", [5, pytest.param(1, marks=pytest.mark.long)])
def test_killed_anywhere_a_reader_finds_one_version_and_the_next_run_mends(
    layout: Layout,
    make_shard: Callable[..., FinishedShard],
    description: DatasetDescription,
    empty: EmptyEncodings,
    read_split,
    stride: int,
) -> None:
    tmp_path = layout.output_dir.parent

    def put(shards: list[FinishedShard]) -> None:
        publish(layout, shards=shards, description=description, nested=False, empty=empty)

    first = [make_shard(0, [0, 1]), make_shard(1, [2, 3]), make_shard(2, [4])]
    put(first)
    old = captions(read_split, layout.output_dir)
    second = [first[0], make_shard(1, [2, 3], version="v2"), make_shard(3, [5])]
    saved = tmp_path / "saved"
    for name in ("storage", "out"):
        shutil.copytree(tmp_path / name, saved / name, copy_function=os.link)
    put(second)
    new = captions(read_split, layout.output_dir)
    undisturbed = content(layout.output_dir)
    assert old != new

    step, seen = 0, set()
    while True:
        copy_of(saved, tmp_path)
        killed = killed_before(step, lambda: put(second))
        found = captions(read_split, layout.output_dir)
        assert found in (old, new)
        seen.add(found == new)
        put(second)
        assert content(layout.output_dir) == undisturbed, f"after a kill before operation {step}"
        step += stride
        if not killed:
            break
    assert seen == {True, False}
    assert step > 30


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("layouts", "stride"),
    [
        (("one", "per_bucket"), 31),
        pytest.param(("one", "per_bucket"), 1, marks=pytest.mark.long),
        pytest.param(("per_bucket", "per_bucket"), 1, marks=pytest.mark.long),
    ],
)
def test_killed_anywhere_buckets_that_are_datasets_are_one_version_or_none(
    layout: Layout,
    make_shard: Callable[..., FinishedShard],
    description: DatasetDescription,
    empty: EmptyEncodings,
    read_split,
    layouts: tuple[str, str],
    stride: int,
) -> None:
    """A sample moves between the buckets: a mixture would hold it twice, or not at all."""
    tmp_path = layout.output_dir.parent

    def put(shards: list[FinishedShard], name: str) -> None:
        described = replace(description, layout=name)  # type: ignore[arg-type]
        publish(layout, shards=shards, description=described, nested=True, empty=empty)

    def read() -> list[list[str]]:
        """What readers of the one dataset and of the blend find, where there is something."""
        there = {layout.metadataset: layout.metadataset}
        there[layout.output_dir] = layout.nv_meta / "split.yaml"
        return [sorted(captions(read_split, path)) for path in there if there[path].is_file()]

    first = [make_shard(0, [0, 1]), make_shard(0, [2], size=(32, 64))]
    put(first, layouts[0])
    (old,) = read()
    second = [make_shard(1, [0], version="v2"), make_shard(1, [1, 2], size=(32, 64), version="v2")]
    saved = tmp_path / "saved"
    for name in ("storage", "out"):
        shutil.copytree(tmp_path / name, saved / name, copy_function=os.link)
    put(second, layouts[1])
    (new,) = read()
    undisturbed = content(layout.output_dir)
    step, killed = 0, True
    while killed:
        copy_of(saved, tmp_path)
        killed = killed_before(step, lambda: put(second, layouts[1]))
        assert all(found in (old, new) for found in read())
        put(second, layouts[1])
        assert content(layout.output_dir) == undisturbed, f"after a kill before operation {step}"
        step += stride
    assert step > 60


@pytest.mark.filterwarnings("ignore")
def test_killed_and_then_given_other_shards_nothing_of_the_killed_run_stays(
    layout: Layout,
    make_shard: Callable[..., FinishedShard],
    description: DatasetDescription,
    tmp_path: Path,
) -> None:
    def put(shards: list[FinishedShard]) -> None:
        publish(layout, shards=shards, description=description, nested=False)

    first = [make_shard(0, [0, 1])]
    put(first)
    second = [make_shard(0, [0, 1], version="v2"), make_shard(1, [2])]
    saved = tmp_path / "saved"
    for name in ("storage", "out"):
        shutil.copytree(tmp_path / name, saved / name, copy_function=os.link)
    held: dict[str, set[bytes]] = {}
    for step in range(0, 40, 7):
        copy_of(saved, tmp_path)
        killed_before(step, lambda: put(second))
        for tar in layout.output_dir.glob("*.tar"):
            held.setdefault(f"{step} {tar.name}", set()).add(tar.read_bytes())
        put([make_shard(0, [0, 1], version="v3")])
        (tar,) = layout.output_dir.glob("*.tar")
        held.setdefault(f"{step} {tar.name}", set()).add(tar.read_bytes())
        names = {path.name for path in layout.output_dir.rglob("*") if path.is_file()}
        assert not [name for name in names if name.startswith(".writing")]
        assert {name for name in names if ".tar" in name} == {tar.name, f"{tar.name}.idx"}
    assert all(len(contents) == 1 for contents in held.values())
