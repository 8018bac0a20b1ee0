"""Within a stale shard only what changed is encoded; the rest is taken over, also from a tar."""

import io
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from diffprep_assets.run_report import RunReport
from diffprep_assets.shard.record import read_samples
from diffprep_assets.shard_plan.table import read_plan, read_shards
from diffprep_assets.validate.dataset import validate_dataset

if TYPE_CHECKING:
    from tests.conftest import Drawing
    from tests.survival.conftest import Workplace

Draw = Callable[..., "Drawing"]
Redone = dict[str, tuple[int, int]]
SHARD_STAGES = ("encode_latents", "encode_text", "shard")


def put(workplace: "Workplace", drawing: "Drawing", *, caption: str | None = None) -> None:
    images, captions = workplace.pictures / "images", workplace.pictures / "captions"
    for folder in (images, captions):
        folder.mkdir(parents=True, exist_ok=True)
    (images / drawing.name).write_bytes(drawing.data)
    (captions / f"{drawing.stem}.txt").write_text(caption or drawing.caption, "utf-8")


def fill(workplace: "Workplace", draw: Draw, number: int) -> None:
    for picture in range(number):
        put(workplace, draw(picture))


def samples(workplace: "Workplace") -> dict[str, tuple[int, str, str]]:
    """Id, shard and digest of each sample that is in a tar, by source key."""
    layout = workplace.dataset().layout
    digests = {
        row.sample_id: (shard.shard, row.digest)
        for shard in read_shards(layout.shards)
        for row in read_samples(layout.shard_samples(shard.shard))
    }
    return {
        row.sample.source_key: (row.sample_id, *digests[row.sample_id])
        for row in read_plan(layout.shard_plan).samples
        if row.sample_id in digests
    }


@dataclass(frozen=True)
class Edit:
    """Something done to the source, and what the next run makes of it: shards rewritten and
    pictures, captions encoded, samples written; `changed` samples have other bytes."""

    what: Callable[["Workplace", Draw], object]
    opened: int
    shards: Mapping[str, tuple[int, int]]
    changed: frozenset[str] = frozenset()


def touched(shards: int, *, tar: int, latents: int | None, text: int | None) -> Redone:
    stages = zip(SHARD_STAGES, (latents, text, tar), strict=True)
    return {stage: (shards, number) for stage, number in stages if number is not None}


EDITS = {
    "one caption changed": Edit(
        lambda place, draw: put(place, draw(5), caption="something else"),
        opened=1,
        shards=touched(1, latents=None, text=1, tar=4),
        changed=frozenset({"images/p005.jpg"}),
    ),
    "one picture edited": Edit(
        lambda place, draw: put(place, draw(2, version=1)),
        opened=1,
        shards=touched(1, latents=1, text=None, tar=4),
        changed=frozenset({"images/p002.png"}),
    ),
    "both edited, in two shards": Edit(
        lambda place, draw: (put(place, draw(0, version=1)), put(place, draw(5, version=1))),
        opened=2,
        # The caption of 5 was another one before.
        shards={"encode_latents": (2, 2), "encode_text": (1, 1), "shard": (2, 8)},
        changed=frozenset({"images/p000.jpg", "images/p005.jpg"}),
    ),
    "one added": Edit(
        lambda place, draw: put(place, draw(9)),
        opened=1,
        shards=touched(1, latents=1, text=1, tar=2),
    ),
    "one deleted": Edit(
        lambda place, draw: (place.pictures / "images" / "p001.jpg").unlink(),
        opened=0,
        shards=touched(1, latents=0, text=0, tar=3),
    ),
    "the deleted one back again": Edit(
        lambda place, draw: put(place, draw(1)),
        opened=1,
        shards=touched(1, latents=1, text=1, tar=3),
    ),
    "one renamed": Edit(
        lambda place, draw: [
            path.rename(path.with_stem("q003")) for path in place.pictures.rglob("p003.*")
        ],
        opened=1,
        # A source_key of its own, so an id of its own: the picture's noise is another one. Its
        # caption is found in the shard that p001 was in before.
        shards=touched(2, latents=1, text=0, tar=6),
    ),
    "one touched": Edit(
        lambda place, draw: (place.pictures / "images" / "p004.jpg").touch(), opened=1, shards={}
    ),
    "nothing": Edit(lambda place, draw: None, opened=0, shards={}),
}


@pytest.mark.parametrize("intermediates", ["prune", pytest.param("keep", marks=pytest.mark.long)])
def test_an_edit_costs_what_it_changes(
    workplace: "Workplace",
    drawing: Draw,
    worked_on: Callable[[RunReport], Redone],
    intermediates: str,
):
    fill(workplace, drawing, 9)
    workplace.write_recipe(output={"intermediates": intermediates})
    assert workplace.run().error is None
    for name, edit in EDITS.items():
        before = samples(workplace)
        edit.what(workplace, drawing)
        predicted = workplace.forecast()
        report = workplace.run()
        redone = worked_on(report)
        after = samples(workplace)
        assert {stage: redone[stage] for stage in SHARD_STAGES if stage in redone} == edit.shards, (
            name
        )
        assert report.summaries["bucket"].samples.encoded == edit.opened, name
        assert {
            stage: (state.counts()["stale"] + state.counts()["missing"], state.to_encode)
            for stage in SHARD_STAGES
            if not (state := predicted.stages[stage]).is_fresh
        } == edit.shards, name
        both = before.keys() & after.keys()
        ids_and_shards = {key: row[:2] for key, row in before.items() if key in both}
        assert {key: after[key][:2] for key in both} == ids_and_shards, name
        assert {key for key in both if before[key][2] != after[key][2]} == edit.changed, name
        assert validate_dataset(workplace.output, full=True).ok, name
        row_files = list(workplace.work.glob("*/g0-*.safetensors"))
        assert len(row_files) == (0 if intermediates == "prune" else 6), name
    assert "images/q003.jpg" in samples(workplace)


def test_one_caption_changed_no_other_tar_is_opened(
    workplace: "Workplace", drawing: Draw, monkeypatch: pytest.MonkeyPatch
):
    """Neither to write the shard nor to publish it; `validate` reads what was published."""
    fill(workplace, drawing, 9)
    workplace.write_recipe()
    workplace.run()
    put(workplace, drawing(5), caption="something else")
    opened: list[str] = []
    original = io.open

    def watched(path: Any, *rest: Any, **options: Any) -> Any:
        if str(path).endswith(".tar") and ".writing-" not in str(path):
            stack = "".join(traceback.format_stack())
            if str(path).startswith(str(workplace.work)) or "energon_prepare" in stack:
                opened.append(Path(path).name)
        return original(path, *rest, **options)

    monkeypatch.setattr(io, "open", watched)
    report = workplace.run()
    assert report.error is None
    assert report.summaries["shard"].done == 1
    # What stayed is taken over from its own.
    assert set(opened) == {"g0-64-64x64-000001.tar"}


def test_a_sample_that_left_comes_back_under_its_id(workplace: "Workplace", drawing: Draw):
    fill(workplace, drawing, 5)
    workplace.write_recipe()
    workplace.run()
    before = samples(workplace)
    path = workplace.pictures / "images" / "p002.png"
    data = path.read_bytes()
    path.unlink()
    put(workplace, drawing(7))
    workplace.run()
    path.write_bytes(data)
    report = workplace.run()
    assert report.written == 6
    after = samples(workplace)
    assert after["images/p002.png"][0] == before["images/p002.png"][0]
    # Its bytes are the same, wherever it is now; nobody else moved.
    assert after["images/p002.png"][2] == before["images/p002.png"][2]
    others = before.keys() - {"images/p002.png"}
    assert {key: after[key] for key in others} == {key: before[key] for key in others}


def test_a_sample_that_moves_to_another_bucket_keeps_its_id_and_its_text(
    workplace: "Workplace", drawing: Draw, worked_on: Callable[[RunReport], Redone]
):
    fill(workplace, drawing, 8)
    workplace.write_recipe(
        output={"shard_size": 2},
        image={"image_size": None, "variable_size": True, "max_size": 128},
    )
    workplace.run()
    before = samples(workplace)
    square = drawing(0, size=(110, 110))
    put(workplace, square, caption=drawing(0).caption)
    predicted = workplace.forecast()
    report = workplace.run()
    # The shard that it left and the one that it joined: a new one, as both places in that bucket's
    # were given to p003 and p007.
    assert worked_on(report) == {
        "download": (1, 8),
        "bucket": (1, 1),
        "encode_latents": (2, 1),
        "encode_text": (2, 0),
        "shard": (2, 2),
    }
    assert {stage: predicted.stages[stage].to_encode for stage in SHARD_STAGES} == {
        **{"encode_latents": 1, "encode_text": 0, "shard": 2},
    }
    after = samples(workplace)
    assert after.keys() == before.keys()
    assert after["images/p000.jpg"][0] == before["images/p000.jpg"][0]
    assert after["images/p000.jpg"][1] != before["images/p000.jpg"][1]
    others = before.keys() - {"images/p000.jpg"}
    assert {key: after[key] for key in others} == {key: before[key] for key in others}


@pytest.mark.parametrize("intermediates", ["prune", pytest.param("keep", marks=pytest.mark.long)])
def test_other_shard_sizes_and_back_encode_nothing_and_change_no_sample(
    workplace: "Workplace",
    drawing: Draw,
    worked_on: Callable[[RunReport], Redone],
    intermediates: str,
):
    fill(workplace, drawing, 7)
    workplace.write_recipe(output={"intermediates": intermediates})
    workplace.run()
    before = samples(workplace)
    for size, shards in ((2, 4), (7, 1), (4, 2)):
        report = workplace.run({"output.shard_size": size})
        assert worked_on(report) == touched(shards, latents=0, text=0, tar=7)
        now = samples(workplace)
        assert {key: (row[0], row[2]) for key, row in now.items()} == {
            key: (row[0], row[2]) for key, row in before.items()
        }
        # The files of the generation before are gone.
        assert len(list(workplace.work.glob("shards/*.tar"))) == shards
        assert len(list(workplace.output.glob("*.tar"))) == shards
    assert workplace.leftovers() == []


def test_kept_rows_go_with_the_next_run_that_prunes_and_nothing_is_encoded_for_that(
    workplace: "Workplace", drawing: Draw, worked_on: Callable[[RunReport], Redone]
):
    fill(workplace, drawing, 5)
    workplace.write_recipe(output={"intermediates": "keep"})
    workplace.run()
    kept = {path.name for path in workplace.work.glob("*/g0-*.safetensors")}
    assert len(list(workplace.work.glob("*/g0-*.safetensors"))) == 4
    workplace.write_recipe()
    assert worked_on(workplace.run()) == {}
    assert list(workplace.work.glob("*/g0-*.safetensors")) == []
    # Without its row file a finished tar is written anew from itself: nothing is encoded.
    workplace.write_recipe(output={"intermediates": "keep"})
    assert worked_on(workplace.run()) == {}
    assert len(kept) == 2


def test_rows_whose_bytes_were_damaged_are_not_taken_over(
    workplace: "Workplace", drawing: Draw, worked_on: Callable[[RunReport], Redone]
):
    fill(workplace, drawing, 4)
    workplace.write_recipe()
    workplace.run()
    tars = workplace.tar_digests()
    layout = workplace.dataset().layout
    (shard,) = tars
    path = layout.shard_file(shard)
    rows = read_samples(layout.shard_samples(shard))
    part = next(part for part in rows[1].parts if part.name == "latents.pth")
    data = bytearray(path.read_bytes())
    data[part.offset + part.size // 2] ^= 1
    path.unlink()
    path.write_bytes(data)
    # A run that has nothing to do with the shard does not look. One that writes it anew notices,
    # and the next one mends it. The text rows were made before: that caption was encoded then.
    assert worked_on(workplace.run()) == {}
    put(workplace, drawing(0), caption="something else")
    report = workplace.run()
    assert report.error is not None
    assert f"the bytes of sample {rows[1].key} in its tar are damaged" in report.error[1]
    assert path.read_bytes() == data
    assert report.summaries["encode_text"].samples.encoded == 2
    assert worked_on(workplace.run()) == {"encode_latents": (1, 1), "shard": (1, 4)}
    put(workplace, drawing(0))
    workplace.run()
    assert workplace.tar_digests() == tars
    assert validate_dataset(workplace.output, full=True).ok


def test_a_repeated_caption_is_one_caption_encoded_with_rows_of_its_own(
    workplace: "Workplace", drawing: Draw
):
    for number in range(4):
        put(workplace, drawing(number), caption="the same words")
    workplace.write_recipe()
    workplace.run()
    layout = workplace.dataset().layout
    (shard,) = read_shards(layout.shards)
    tar = layout.shard_file(shard.shard).read_bytes()
    rows = read_samples(layout.shard_samples(shard.shard))
    embeds = {part_bytes(tar, row.parts, "prompt_embeds.pth") for row in rows}
    assert len(rows) == 4
    assert len(embeds) == 1


def part_bytes(tar: bytes, parts, name: str) -> bytes:
    part = next(part for part in parts if part.name == name)
    return tar[part.offset : part.offset + part.size]
