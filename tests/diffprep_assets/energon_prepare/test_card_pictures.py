"""samples.jpg beside the card: cheap, steady, and nobody else's."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from PIL import Image

from diffprep_assets.energon_prepare.card_pictures import MAX_BYTES, card_pictures
from diffprep_assets.energon_prepare.provenance import DatasetDescription
from diffprep_assets.energon_prepare.publish import FinishedShard, publish
from diffprep_assets.layout import Layout
from diffprep_assets.shard.record import ShardRecord, read_record
from diffprep_assets.shard_plan.table import read_shards

if TYPE_CHECKING:
    from tests.conftest import ProjectFolder

MakeShard = Callable[..., FinishedShard]


def records(layout: Layout) -> list[ShardRecord]:
    found = (read_record(layout.shard_record(s.shard)) for s in read_shards(layout.shards))
    return [record for record in found if record is not None]


def test_the_sheet_shows_pictures_and_the_card_shows_the_sheet(
    drawn_dataset: "ProjectFolder",
) -> None:
    layout = drawn_dataset.layout()
    sheet = Image.open(layout.card_pictures)
    assert sheet.format == "JPEG"
    assert sheet.size[0] > 4 * 200
    assert sheet.size[1] > 2 * 200
    assert layout.card_pictures.stat().st_size <= MAX_BYTES < 200_000
    assert "](samples.jpg)" in layout.card.read_text()


def test_the_sheet_is_drawn_anew_only_when_other_pictures_are_chosen(
    project: "ProjectFolder",
) -> None:
    drawings = project.write_pictures(range(3))
    project.write_recipe()
    assert project.run().ok
    layout = project.layout()
    before = (layout.card_pictures.stat().st_ino, layout.card_pictures.read_bytes())
    (project.pictures / "captions" / f"{drawings[0].stem}.txt").write_text("something else")
    assert project.run().ok
    assert (layout.card_pictures.stat().st_ino, layout.card_pictures.read_bytes()) == before
    project.pictures.rename(project.folder / "away")
    assert card_pictures(project.dataset(), records(layout), layout) == before[1]
    layout.card_pictures.unlink()
    assert card_pictures(project.dataset(), records(layout), layout) is None
    (project.folder / "away").rename(project.pictures)
    assert card_pictures(project.dataset(), records(layout), layout) == before[1]
    (project.pictures / "images" / drawings[1].name).rename(project.folder / drawings[1].name)
    fewer = card_pictures(project.dataset(), records(layout), layout)
    assert fewer is not None
    assert fewer != before[1]


def test_somebody_elses_file_of_that_name_stays(
    project: "ProjectFolder", layout: Layout, make_shard: MakeShard, description: DatasetDescription
) -> None:
    project.write_recipe()
    for path in (project.layout().card_pictures, layout.card_pictures):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"mine")
    assert card_pictures(project.dataset(), [], project.layout()) is None
    publish(layout, shards=[make_shard(0, [1])], description=description, nested=False)
    assert layout.card_pictures.read_bytes() == b"mine"


def test_the_sheet_goes_with_the_metadata(
    drawn_dataset: "ProjectFolder",
    layout: Layout,
    make_shard: MakeShard,
    description: DatasetDescription,
) -> None:
    sheet = drawn_dataset.layout().card_pictures.read_bytes()
    described = replace(description, pictures=sheet)
    publish(layout, shards=[make_shard(0, [1])], description=described, nested=False)
    assert layout.card_pictures.read_bytes() == sheet
    shards = [make_shard(0, [1]), make_shard(1, [2])]
    publish(layout, shards=shards, description=described, nested=False, finalize=False)
    assert not layout.card_pictures.exists()
