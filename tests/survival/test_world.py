"""A disk that is full, read-only or rotten, a source that changes or goes: said clearly, nothing
lost, and the next run goes on."""

import errno
import os
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import Result

from diffprep_assets.energon_prepare.provenance import plan_shards, read_provenance
from diffprep_assets.run_report import RunReport
from diffprep_assets.shard.record import read_samples
from diffprep_assets.validate.dataset import validate_dataset
from diffprep_assets.validate.update import mark_bad
from diffprep_resources.compute.base import ComputeEngine, Outcome, Report, Task, WorkerSpec
from diffprep_resources.compute.engines import Engines, Load
from diffprep_resources.compute.inline import InlineEngine
from diffprep_resources.storage.atomic import replace_file

if TYPE_CHECKING:
    from tests.conftest import Drawing
    from tests.survival.conftest import Workplace

Draw = Callable[..., "Drawing"]
Redone = dict[str, tuple[int, int]]


def fill(workplace: "Workplace", draw: Draw, number: int) -> None:
    for folder in ("images", "captions"):
        (workplace.pictures / folder).mkdir(parents=True, exist_ok=True)
    for drawing in (draw(picture) for picture in range(number)):
        (workplace.pictures / "images" / drawing.name).write_bytes(drawing.data)
        text = workplace.pictures / "captions" / f"{drawing.stem}.txt"
        text.write_text(drawing.caption, "utf-8")
    workplace.write_recipe(output={"shard_size": 2})


@dataclass
class Meddling(Engines):
    """Does something before the work of the spec named `before` begins."""

    before: str
    what: Callable[[], object]

    @contextmanager
    def cpu(self, load: Load) -> Iterator[ComputeEngine]:
        yield _MeddlingEngine(self)

    @contextmanager
    def device(
        self, load: Load, *, device: str | None = None, workers: int | None = None
    ) -> Iterator[ComputeEngine]:
        yield _MeddlingEngine(self)


@dataclass
class _MeddlingEngine(ComputeEngine):
    meddling: Meddling

    def run(self, spec: WorkerSpec, tasks: Sequence[Task], *, report: Report) -> Iterator[Outcome]:
        if type(spec).__name__ == self.meddling.before:
            self.meddling.what()
        return InlineEngine(device="cpu").run(spec, tasks, report=report)


# -- the source ------------------------------------------------------------------------------


def test_a_picture_that_changes_after_bucket_fails_its_shard_and_the_next_run_repairs(
    workplace: "Workplace", drawing: Draw, worked_on: Callable[[RunReport], Redone]
):
    fill(workplace, drawing, 6)
    image = workplace.pictures / "images" / "p002.png"
    edited = drawing(2, version=1).data
    report = workplace.run(engines=Meddling("LatentsSpec", lambda: image.write_bytes(edited)))
    assert report.error is not None
    stage, message = report.error
    assert stage == "encode_latents"
    assert "source changed since bucket: images/p002.png; run download and bucket again" in message
    assert "g0-64-64x64-000001" in message
    summary = report.summaries["encode_latents"]
    assert (summary.done, set(summary.failed)) == (2, {"g0-64-64x64-000001"})
    assert report.summaries["encode_text"].done == 3
    assert "shard" not in report.summaries

    again = worked_on(workplace.run())
    assert again["bucket"] == (1, 1)
    assert again["encode_latents"] == (1, 2)
    assert "encode_text" not in again
    assert again["shard"] == (3, 6)
    made = workplace.tar_digests()
    shutil.rmtree(workplace.work)
    shutil.rmtree(workplace.output)
    workplace.run()
    assert workplace.tar_digests() == made


@pytest.mark.parametrize("before", ["LatentsSpec", "BucketSpec"])
def test_a_source_that_goes_while_it_is_read_loses_nothing(
    workplace: "Workplace", drawing: Draw, before: str
):
    fill(workplace, drawing, 4)
    workplace.run()
    expected = workplace.tar_digests()
    shutil.rmtree(workplace.work)
    shutil.rmtree(workplace.output)
    away = workplace.folder / "away"
    report = workplace.run(engines=Meddling(before, lambda: workplace.pictures.rename(away)))
    assert report.error is not None, report.rejects
    assert report.written == 0
    away.rename(workplace.pictures)
    assert workplace.run().error is None
    assert workplace.tar_digests() == expected


@pytest.mark.parametrize("left", ["nothing", "an empty folder"])
def test_a_source_that_is_not_mounted_is_named_and_the_dataset_stays(
    workplace: "Workplace", drawing: Draw, worked_on: Callable[[RunReport], Redone], left: str
):
    fill(workplace, drawing, 4)
    workplace.run()
    expected = workplace.tar_digests()
    away = workplace.folder / "away"
    workplace.pictures.rename(away)
    if left == "an empty folder":
        workplace.pictures.mkdir()
    report = workplace.run()
    assert report.error is not None
    assert report.error[0] == "source_index"
    assert str(workplace.pictures) in report.error[1] or "holds no picture" in report.error[1]
    assert workplace.tar_digests() == expected
    assert validate_dataset(workplace.output, full=True).ok
    if left == "an empty folder":
        workplace.pictures.rmdir()
    away.rename(workplace.pictures)
    assert worked_on(workplace.run()) == {}
    assert workplace.tar_digests() == expected


def test_what_the_plan_before_made_stays_until_the_new_one_is_published(
    workplace: "Workplace", drawing: Draw, worked_on: Callable[[RunReport], Redone]
):
    """The rows of the new shards come from the old tars, in as many runs as it takes."""
    fill(workplace, drawing, 4)
    workplace.run()
    old = {path: path.read_bytes() for path in (workplace.work / "shards").iterdir()}
    published = {path: path.read_bytes() for path in workplace.output.glob("*.tar")}
    assert len(old) == 6

    def break_off() -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    for spec in ("LatentsSpec", "ShardSpec"):
        report = workplace.run({"output.shard_size": 3}, engines=Meddling(spec, break_off))
        assert report.error is not None
        assert "Input/output error" in report.error[1]
        assert {path: path.read_bytes() for path in old} == old
        assert {path: path.read_bytes() for path in workplace.output.glob("*.tar")} == published
        assert validate_dataset(workplace.output, full=True).ok
    assert worked_on(workplace.run({"output.shard_size": 3})) == {"shard": (2, 4)}
    assert not any(path.exists() for path in old)
    assert validate_dataset(workplace.output, full=True).ok


# -- the disk --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Disk:
    """A small filesystem at `folder`."""

    folder: Path

    def change(self, options: str) -> None:
        subprocess.run(["mount", "-o", f"remount,{options}", self.folder], check=True)


@pytest.fixture
def disk(workplace: "Workplace") -> Iterator[Callable[[str, str], Disk]]:
    """Mounts a small filesystem on a folder of the project."""
    mounted: list[Path] = []

    def mount(name: str, options: str) -> Disk:
        folder = workplace.folder / name
        folder.mkdir(parents=True)
        words = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
        done = subprocess.run(words, capture_output=True, check=False)
        if done.returncode:
            pytest.skip("only root may mount a small disk")
        mounted.append(folder)
        return Disk(folder)

    yield mount
    for folder in mounted:
        subprocess.run(["umount", "-l", folder], check=True)


@pytest.fixture(scope="session")
def expected(workplaces: Callable[[str], "Workplace"], drawing: Draw) -> dict[str, str]:
    workplace = workplaces("expected")
    fill(workplace, drawing, 6)
    assert workplace.run().error is None
    return workplace.tar_digests()


@pytest.mark.parametrize("name", ["work", "out"])
def test_on_a_full_disk_a_run_says_so_and_goes_on_when_there_is_room(
    workplace: "Workplace",
    drawing: Draw,
    disk: Callable[[str, str], Disk],
    expected: dict[str, str],
    name: str,
):
    fill(workplace, drawing, 6)
    small = disk(name, "size=16k")
    stages = []
    for kilobytes in range(40, 2000, 48):
        if (report := workplace.run()).error is None:
            break
        stage, message = report.error
        stages.append(stage)
        assert "No space left on device" in message, report.error
        assert str(small.folder) in message, report.error
        small.change(f"size={kilobytes}k")
    assert workplace.run().error is None
    assert len(set(stages)) >= (3 if name == "work" else 1), stages
    assert workplace.tar_digests() == expected
    assert workplace.leftovers() == []
    assert validate_dataset(workplace.output, full=True).ok


@pytest.mark.parametrize("name", ["work", "out"])
def test_on_a_read_only_disk_a_run_says_so_and_the_dataset_stays(
    workplace: "Workplace",
    drawing: Draw,
    disk: Callable[[str, str], Disk],
    expected: dict[str, str],
    diffprep: Callable[..., Result],
    name: str,
):
    fill(workplace, drawing, 5)
    fixed = disk(name, "size=8m")
    workplace.run()
    before = workplace.tar_digests()
    fill(workplace, drawing, 6)
    fixed.change("ro")
    if name == "work":
        # Not even its lock can be taken.
        result = diffprep("run", "set")
        err = result.stderr
        assert result.exit_code == 1, err
        assert isinstance(result.exception, SystemExit), err
        assert workplace.tar_digests() == before
    else:
        report = workplace.run()
        assert report.error is not None
        err = report.error[1]
    assert "Read-only file system" in err
    assert str(fixed.folder) in err
    assert validate_dataset(workplace.output, full=True).ok
    fixed.change("rw")
    assert workplace.run().error is None
    assert workplace.tar_digests() == expected


def test_files_that_may_not_grow_lose_nothing(
    workplace: "Workplace", drawing: Draw, expected: dict[str, str]
):
    """A limit on file size, which needs no mount: writes are cut short in the middle."""
    fill(workplace, drawing, 6)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    stages = []
    try:
        for size in range(1_000, 200_000, 8_000):
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
            report = workplace.run()
            if report.error is None:
                break
            stages.append(report.error[0])
            assert "File too large" in report.error[1], report.error
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert len(stages) > 2
    assert "shard" in stages
    assert workplace.run().error is None
    assert workplace.tar_digests() == expected
    assert workplace.leftovers() == []


def test_an_error_of_the_disk_names_the_file(tmp_path: Path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    path = tmp_path / "file"
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        with pytest.raises(OSError, match=str(path)), replace_file(path) as file:
            file.write(bytes(1000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(tmp_path.iterdir()) == []


# -- bytes that change on their own ------------------------------------------------------------


def flip(path: Path, offset: int, count: int = 1) -> None:
    """`count` bytes of the file changed by a bit where they lie; its times stay."""
    stat = path.stat()
    with path.open("r+b") as file:
        file.seek(offset)
        data = file.read(count)
        file.seek(offset)
        file.write(bytes(byte ^ 1 for byte in data))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


@pytest.mark.parametrize("intermediates", ["prune", pytest.param("keep", marks=pytest.mark.long)])
def test_a_flipped_byte_is_found_and_the_next_run_mends_that_shard_alone(
    workplace: "Workplace",
    drawing: Draw,
    worked_on: Callable[[RunReport], Redone],
    diffprep: Callable[..., Result],
    intermediates: str,
):
    fill(workplace, drawing, 6)
    workplace.write_recipe(output={"shard_size": 2, "intermediates": intermediates})
    workplace.run()
    before = workplace.tar_digests()
    layout = workplace.dataset().layout
    provenance = read_provenance(layout.dataset_json)
    assert provenance is not None
    (name,) = [name for name, key in plan_shards(provenance).items() if key == "g0-64-64x64-000001"]
    row = read_samples(layout.shard_samples("g0-64-64x64-000001"))[1]
    flip(workplace.output / name, row.offset + row.size // 2)

    result = diffprep("validate", str(workplace.output), "--full")
    assert result.exit_code == 1
    assert f"{name}/{row.key}: its bytes changed" in result.output
    # Nothing was said of the others.
    assert "000000.tar" not in result.output
    assert "000002.tar" not in result.output

    redone = worked_on(workplace.run())
    encoded = {"encode_latents": (1, 1), "encode_text": (1, 1)} if intermediates == "prune" else {}
    assert redone == {**encoded, "shard": (1, 2)}
    assert workplace.tar_digests() == before
    assert validate_dataset(workplace.output, full=True).ok
    # The name that held the damaged bytes is not used again.
    assert not (workplace.output / name).exists()
    assert worked_on(workplace.run()) == {}


def test_damaged_metadata_is_written_again_though_its_size_and_times_stayed(
    workplace: "Workplace", drawing: Draw, worked_on: Callable[[RunReport], Redone]
):
    fill(workplace, drawing, 4)
    workplace.run()
    layout = workplace.dataset().layout
    meta = workplace.output / ".nv-meta"
    idx = workplace.output / "000000.tar.idx"
    for path, offset, count in (
        (idx, 9, 1),
        (meta / ".info.json", 60, 1),
        (meta / "split.yaml", 20, 1),
        (meta / "digests.parquet", 4, 400),
        (meta / "index.sqlite", 4096, 4096),
    ):
        data = path.read_bytes()
        flip(path, offset, count)
        report = validate_dataset(workplace.output, full=True)
        assert not report.ok, path
        mark_bad(layout, report)
        # What is wrong between an index and a tar may be either's: tars are written anew at worst.
        redone = worked_on(workplace.run())
        assert all(redone.get(stage, (0, 0))[1] == 0 for stage in ("encode_latents", "encode_text"))
        if path.suffix != ".sqlite":
            assert path.read_bytes() == data, path
        assert validate_dataset(workplace.output, full=True).ok, path
