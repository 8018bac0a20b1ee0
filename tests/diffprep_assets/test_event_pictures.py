import io
from base64 import b64decode
from dataclasses import asdict
from typing import TYPE_CHECKING

import dagster as dg
import pytest
from PIL import Image

from diffprep_assets import event_pictures
from diffprep_assets.bucket.table import read_rows
from diffprep_assets.event_pictures import bucket_chart, part_pictures, plan_pictures
from diffprep_assets.partitions import stage_key
from diffprep_assets.plan_report.sheets import sheets
from diffprep_assets.run_command import RunRequest, run_dataset
from diffprep_assets.shard_plan.table import read_shards
from diffprep_resources.progress.silent import SilentProgress
from tests.cases.clip_files import clip

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import ProjectFolder

MOST_CHARACTERS = 60_000


def plan(project: "ProjectFolder") -> None:
    """The stages up to the plan: nothing is encoded."""
    path = project.project.recipe_path("set")
    request = RunRequest(project.project, path, {}, {}, plan_only=True)
    assert run_dataset(request, SilentProgress(), say=lambda _: None).ok


def picture(markdown: str) -> Image.Image:
    return Image.open(io.BytesIO(b64decode(markdown.partition("base64,")[2].rstrip(")"))))


def test_pictures_of_a_part_and_of_a_plan_are_small_and_come_from_every_bucket(
    drawn_dataset: "ProjectFolder",
):
    dataset = drawn_dataset.dataset()
    shards = read_shards(dataset.layout.shards)
    assert len({shard.bucket for shard in shards}) > 1
    part, whole = part_pictures(dataset, "p00000"), plan_pictures(dataset, shards)
    assert part is not None
    assert whole is not None
    # Six of a part in one row; those of the plan are more.
    assert picture(part).width > 700
    assert picture(whole).height > picture(part).height
    assert len(part) < MOST_CHARACTERS
    assert len(whole) + len(bucket_chart(shards)) < MOST_CHARACTERS


def test_pictures_that_are_gone_are_left_out(project: "ProjectFolder"):
    project.write_pictures(range(2))
    project.write_recipe()
    plan(project)
    for path in (project.pictures / "images").iterdir():
        path.unlink()
    dataset = project.dataset()
    assert part_pictures(dataset, "p00000") is None
    assert plan_pictures(dataset, read_shards(dataset.layout.shards)) is None


def test_clips_show_their_first_frames(project: "ProjectFolder"):
    for number in range(3):
        write_clip(project.pictures, f"c{number}", clip(frames=12, rotation=90 * number))
    video = {"num_frames": 5, "max_width": 64, "max_height": 48}
    project.write_recipe(video=video, image=None, model={"precision": None, "batch_size": 1})
    plan(project)
    dataset = project.dataset()
    part = part_pictures(dataset, "p00000")
    assert part is not None
    assert picture(part).width > 3 * 100
    shards = read_shards(dataset.layout.shards)
    assert {shard.bucket.name for shard in shards} == {"48-64x48x5"}
    assert plan_pictures(dataset, shards) is not None
    rows = [asdict(row) for row in read_rows(dataset.layout.bucket("p00000"))]
    (sheet,) = sheets(dataset, {shards[0].bucket: rows})
    assert (sheet.shown, sheet.gone) == (3, 0)


def write_clip(folder: "Path", name: str, data: bytes) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.mp4").write_bytes(data)
    (folder / f"{name}.txt").write_text(f"the clip {name}")


def test_an_unchanged_plan_keeps_the_pictures_of_its_last_event_and_a_changed_one_does_not(
    project: "ProjectFolder", monkeypatch: pytest.MonkeyPatch
):
    project.write_pictures(range(2))
    project.write_recipe()
    plan(project)
    first = pictures_of_plan()
    # Whatever were drawn now would be smaller.
    monkeypatch.setattr(event_pictures, "SIDE", 64)
    plan(project)
    assert pictures_of_plan() == first
    project.write_pictures([2])
    plan(project)
    assert picture(pictures_of_plan()).height < picture(first).height


def pictures_of_plan() -> str:
    with dg.DagsterInstance.get() as instance:
        event = instance.get_latest_materialization_event(stage_key("set", "shard_plan"))
    assert event is not None
    assert event.asset_materialization is not None
    value = event.asset_materialization.metadata["pictures"].value
    assert isinstance(value, str)
    return value
