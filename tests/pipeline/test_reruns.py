"""A rerun redoes what depends on what changed, and leaves every other file alone."""

import io
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from PIL import Image

from diffprep_assets.run_report import RunReport
from diffprep_assets.validate.dataset import validate_dataset

if TYPE_CHECKING:
    from tests.conftest import Drawing, ProjectFolder

SHARD_STAGES = ("encode_latents", "encode_text", "shard")
# Views and marks that every run writes again, with the same bytes when nothing changed.
WRITTEN_EACH_TIME = {"work/set/source_index.parquet", "work/set/rejects.parquet"}
WRITTEN_EACH_TIME |= {"work/set/prepared.json"}


def files_of(project: "ProjectFolder") -> dict[str, tuple[int, int, bytes]]:
    """Inode, mtime and bytes of every file of the storage root and of the output, less locks."""
    found = {}
    for root in (project.project.storage_root, project.layout().output_dir):
        for path in root.rglob("*"):
            if path.is_file() and ".locks" not in path.parts:
                stat = path.stat()
                name = path.relative_to(project.folder).as_posix()
                found[name] = (stat.st_ino, stat.st_mtime_ns, path.read_bytes())
    return found


def written(before: Mapping[str, Any], after: Mapping[str, Any]) -> set[str]:
    """The files that are new or were replaced, whatever is in them."""
    return {name for name, file in after.items() if before.get(name) != file}


def done(report: RunReport) -> dict[str, tuple[int, int]]:
    """(made, fresh) of every stage of parts or shards."""
    assert report.error is None
    assert not any(summary.failed for summary in report.summaries.values())
    return {
        stage: (summary.done, summary.fresh)
        for stage, summary in report.summaries.items()
        if summary.unit is not None
    }


def shards(report: RunReport) -> dict[str, tuple[int, int]]:
    stages = done(report)
    return {stage: stages[stage] for stage in SHARD_STAGES}


def tar_names(project: "ProjectFolder") -> list[str]:
    return sorted(path.name for path in project.layout().output_dir.glob("*.tar"))


def test_a_second_run_encodes_nothing_and_rewrites_nothing(project: "ProjectFolder"):
    project.write_pictures(range(10))
    project.write_recipe(output={"train_split": 0.8})
    first = project.run()
    assert done(first) == {
        **{"download": (1, 0), "bucket": (1, 0)},
        **{"encode_latents": (4, 0), "encode_text": (4, 0), "shard": (4, 0)},
    }
    before = files_of(project)

    # Neither does one that only goes at another speed.
    for execution in ({}, {"batch_size": 2, "device": "cpu"}):
        again = project.run(**execution)
        assert done(again) == {stage: (0, made) for stage, (made, _) in done(first).items()}
        assert again.written == first.written == 10
        assert all(summary.samples.encoded == 0 for summary in again.summaries.values())
        after = files_of(project)
        assert {name: file[2] for name, file in after.items()} == {
            name: file[2] for name, file in before.items()
        }
        assert written(before, after) <= WRITTEN_EACH_TIME


def test_a_dataset_moved_elsewhere_without_its_dagster_home_is_still_fresh(
    project: "ProjectFolder",
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
):
    project.write_pictures(range(5))
    project.write_recipe()
    project.run()
    moved = tmp_path_factory.mktemp("moved") / "project"
    # A copy has new change times, so that every picture is looked at again.
    shutil.copytree(project.folder, moved, ignore=shutil.ignore_patterns(".dagster"))
    shutil.rmtree(project.folder / "out")
    monkeypatch.setenv("DAGSTER_HOME", str(moved / ".dagster"))
    project.folder = moved
    assert shards(project.run()) == dict.fromkeys(SHARD_STAGES, (0, 2))


@pytest.mark.long
def test_a_changed_field_redoes_exactly_what_depends_on_it(
    project: "ProjectFolder", other_encoders: Path
):
    project.write_pictures(range(3))
    project.write_recipe(output={"shard_size": 2})
    project.run()
    changes: dict[str, object] = {}
    # One after another, each with those before it.
    for key, value, redone in (
        ("model.t5_max_length", 12, {"encode_text", "shard"}),
        ("model.seed", 7, {"encode_latents", "shard"}),
        ("model.vae_path", str(other_encoders), {"encode_latents", "shard"}),
        ("model.clip_path", str(other_encoders), {"encode_text", "shard"}),
        ("image.center_crop", True, {"bucket", "encode_latents", "shard"}),
        ("output.train_split", 0.5, set()),
    ):
        changes[key] = value
        stages = done(project.run(changes=changes))
        assert {stage for stage, (made, _) in stages.items() if made} == redone, key
        assert all(stages[stage][1] == 0 for stage in redone), key


def test_one_more_picture_rewrites_one_shard(
    project: "ProjectFolder", read_samples: Callable[..., dict[str, Any]]
):
    project.write_pictures(range(10))
    project.write_recipe()
    project.run()
    before = files_of(project)
    old = read_samples(project.layout().output_dir)

    project.write_pictures([10])
    report = project.run()
    assert report.written == 11
    assert report.summaries["bucket"].samples.encoded == 1
    assert shards(report) == dict.fromkeys(SHARD_STAGES, (1, 2))
    assert tar_names(project) == ["000000.tar", "000001.tar", "000002-1.tar"]
    new = files_of(project)
    assert {name for name in written(before, new) if "g0-" in name} == {
        name for name in new if "g0-64-64x64-000002" in name
    }
    assert written(before, new).isdisjoint({"out/set/000000.tar", "out/set/000001.tar"})
    samples = read_samples(project.layout().output_dir)
    assert samples.keys() - old.keys() == {"images/p010.png"}
    assert {key: samples[key]["key"] for key in old} == {key: s["key"] for key, s in old.items()}


def test_a_picture_edited_in_place_rewrites_its_shard_alone(
    project: "ProjectFolder",
    drawing: Callable[..., "Drawing"],
    read_samples: Callable[..., dict[str, Any]],
):
    project.write_pictures(range(9))
    project.write_recipe()
    project.run()
    old = read_samples(project.layout().output_dir)
    path = project.pictures / "images" / "p004.jpg"
    times = path.stat()
    edited = same_length(drawing(4, version=1).data, length=times.st_size)
    # The same name, size and mtime: only the change time, which nobody can set, tells.
    path.write_bytes(edited)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert path.stat().st_size == times.st_size

    report = project.run()
    assert report.summaries["bucket"].samples.encoded == 1
    assert shards(report) == {
        **{"encode_latents": (1, 2), "encode_text": (0, 3), "shard": (1, 2)},
    }
    assert tar_names(project) == ["000000.tar", "000001-1.tar", "000002.tar"]
    new = read_samples(project.layout().output_dir)
    changed = {
        key
        for key, sample in new.items()
        if not sample["tensors"]["latents"].equal(old[key]["tensors"]["latents"])
    }
    assert changed == {"images/p004.jpg"}


def same_length(data: bytes, *, length: int) -> bytes:
    """The JPEG, coarser, and filled up with a comment to `length` bytes."""
    buffer = io.BytesIO()
    Image.open(io.BytesIO(data)).save(buffer, "JPEG", quality=50)
    coarse = buffer.getvalue()
    rest = length - len(coarse)
    return coarse[:2] + b"\xff\xfe" + (rest - 2).to_bytes(2, "big") + bytes(rest - 4) + coarse[2:]


def test_a_caption_edited_redoes_the_text_of_its_shard_alone(
    project: "ProjectFolder", read_samples: Callable[..., dict[str, Any]]
):
    project.write_pictures(range(9))
    project.write_recipe()
    project.run()
    (project.pictures / "captions" / "p008.txt").write_text("something else")
    report = project.run()
    assert shards(report) == {
        **{"encode_latents": (0, 3), "encode_text": (1, 2), "shard": (1, 2)},
    }
    samples = read_samples(project.layout().output_dir)
    assert samples["images/p008.jpg"]["caption"] == "something else"


def test_a_deleted_picture_leaves_its_shard_and_nobody_moves(
    project: "ProjectFolder", read_samples: Callable[..., dict[str, Any]]
):
    project.write_pictures(range(9))
    project.write_recipe()
    project.run()
    old = read_samples(project.layout().output_dir)
    (project.pictures / "images" / "p001.jpg").unlink()
    (project.pictures / "images" / "p008.jpg").unlink()
    report = project.run()
    # The first shard loses one of four; the last held p008 alone and is retired.
    assert report.summaries["shard"].done == 1
    assert report.summaries["shard"].fresh == 1
    assert tar_names(project) == ["000000-1.tar", "000001.tar"]
    new = read_samples(project.layout().output_dir)
    assert {key: sample["key"] for key, sample in new.items()} == {
        key: sample["key"]
        for key, sample in old.items()
        if key not in {"images/p001.jpg", "images/p008.jpg"}
    }
    work = project.layout().folder
    assert not [path for path in work.rglob("*000002*") if ".locks" not in path.parts]


def test_damaged_tars_are_written_anew_and_the_others_are_not(project: "ProjectFolder"):
    project.write_pictures(range(6))
    project.write_recipe(output={"shard_size": 2})
    project.run()
    first, second, third = (
        project.layout().shard_file(f"g0-64-64x64-{number:06d}") for number in range(3)
    )
    data = {path: path.read_bytes() for path in (first, second)}
    kept = third.stat()
    first.unlink()
    second.unlink()
    second.write_bytes(data[second][:5000])
    report = project.run()
    assert shards(report)["shard"] == (2, 1)
    assert {path: path.read_bytes() for path in (first, second)} == data
    assert (third.stat().st_ino, third.stat().st_mtime_ns) == (kept.st_ino, kept.st_mtime_ns)
    assert validate_dataset(project.layout().output_dir, full=True).ok
