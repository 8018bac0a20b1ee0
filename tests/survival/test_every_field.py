"""Every field of a recipe changed in turn: exactly what depends on it is redone, and the forecast
says so beforehand, with the reason."""

import functools
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import BaseModel

from diffprep_assets.energon_prepare.update import last_prepared
from diffprep_assets.forecast import Forecast
from diffprep_assets.freshness import STAGES
from diffprep_assets.layout import Layout
from diffprep_assets.recipe.schema import Recipe
from diffprep_assets.run_report import RunReport
from diffprep_assets.shard_plan.table import read_head
from diffprep_assets.source_index.table import read_index
from diffprep_assets.validate.update import last_validation
from diffprep_resources.errors import RecipeError

if TYPE_CHECKING:
    from tests.conftest import Drawing
    from tests.survival.conftest import Workplace

Draw = Callable[..., "Drawing"]
Redone = Mapping[str, tuple[int, int]]

# What a rewritten dataset.json alone entails.
DESCRIBED = ("energon_prepare", "validate")
PLANNED = ("shard_plan", *DESCRIBED)


@dataclass(frozen=True)
class Change:
    """A field's new value over the recipe of `base`, and what it makes a run redo.

    `redone` gives partitions made and samples worked on (files opened, pictures, captions encoded,
    samples written) of the stages of parts and shards; `whole` names the whole stages whose
    content is another. `why` is a reason that the first stale stage gives.
    """

    value: object
    base: str = "squares"
    redone: Redone = field(default_factory=dict)
    whole: tuple[str, ...] = DESCRIBED
    why: str = ""
    also: Mapping[str, object] = field(default_factory=dict)
    refused: str = ""


# -- the datasets that fields are changed of ---------------------------------------------------


def squares(workplace: "Workplace", draw: Draw) -> None:
    """Seven pictures in two shards: four sizes, transparent ones among them."""
    _directory(workplace, [draw(number) for number in range(7)])
    workplace.write_recipe()


def several_lines(workplace: "Workplace", draw: Draw) -> None:
    """Three pictures: two captions, one caption, an empty one, which is a reject."""
    drawings = [draw(number) for number in range(3)]
    _directory(workplace, drawings, captions=["first line\nsecond line", "one line", ""])
    workplace.write_recipe(captions={"choose": "first", "lines": "each"})


def halves(workplace: "Workplace", draw: Draw) -> None:
    _directory(workplace, [draw(number) for number in range(4)])
    workplace.write_recipe(output={"train_split": 0.5, "shard_size": 2})


def three_splits(workplace: "Workplace", draw: Draw) -> None:
    _directory(workplace, [draw(number) for number in range(4)])
    workplace.write_recipe(output={"splits": {"train": 0.5, "val": 0.25, "test": 0.25}})


def capped(workplace: "Workplace", draw: Draw) -> None:
    _directory(workplace, [draw(number) for number in range(4)])
    workplace.write_recipe(output={"max_samples": 2})


def variable(workplace: "Workplace", draw: Draw) -> None:
    """Three buckets of one picture, one of two."""
    _directory(workplace, [draw(number) for number in range(5)])
    workplace.write_recipe(image={"image_size": None, "variable_size": True, "max_size": 128})


def buckets(workplace: "Workplace", draw: Draw) -> None:
    """A square, one of 2:1, one that grows by 1.3, one large enough for tier 512."""
    sizes = ((256, 256), (430, 220), (200, 196), (520, 512))
    _directory(workplace, [draw(number, size=size) for number, size in enumerate(sizes)])
    workplace.write_recipe(image={"image_size": None, "buckets": {"tiers": [256]}})


def hub(workplace: "Workplace", draw: Draw) -> None:
    """Two configurations; `a` has two splits. A row has two pictures and two captions."""
    for number, name in enumerate(
        ("a/train-00000-of-00002", "a/train-00001-of-00002", "a/test-00000-of-00001", "b/train")
    ):
        drawings = [draw(10 * number + row) for row in range(2)]
        path = workplace.folder / "hub" / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        columns = {
            "image": [drawing.data for drawing in drawings],
            "photo": [draw(10 * number + row, version=1).data for row in range(2)],
            "text": [drawing.caption for drawing in drawings],
            "prompt": [f"another caption {drawing.caption}" for drawing in drawings],
        }
        pq.write_table(pa.table(columns), path)
    (workplace.folder / "elsewhere").symlink_to(workplace.folder / "hub")
    workplace.write_recipe(
        source={"type": "huggingface", "hf_dataset": "hub", "hf_name": "a"},
        data_format={"image_keys": ["image"], "caption_keys": ["text"]},
    )


def tars(workplace: "Workplace", draw: Draw) -> None:
    from webdataset import TarWriter

    for name, numbers in (("one", (0, 1)), ("two", (2,))):
        path = workplace.folder / "tars" / f"{name}.tar"
        path.parent.mkdir(exist_ok=True)
        with TarWriter(str(path)) as tar:
            for drawing in (draw(number) for number in numbers):
                suffix = drawing.name.rsplit(".")[-1]
                tar.write({"__key__": drawing.stem, suffix: drawing.data, "txt": drawing.caption})
    _directory(workplace, [draw(number) for number in range(2)])
    workplace.write_recipe(source={"type": "webdataset", "input_path": "tars/one.tar"})


BASES = {
    base.__name__: base
    for base in (
        *(squares, several_lines, halves, three_splits, capped, variable, buckets, hub, tars),
    )
}


def _directory(
    workplace: "Workplace", drawings: list["Drawing"], captions: list[str] | None = None
) -> None:
    (workplace.pictures / "images").mkdir(parents=True)
    (workplace.pictures / "captions").mkdir()
    texts = captions or [drawing.caption for drawing in drawings]
    for drawing, text in zip(drawings, texts, strict=True):
        (workplace.pictures / "images" / drawing.name).write_bytes(drawing.data)
        (workplace.pictures / "captions" / f"{drawing.stem}.txt").write_text(text, "utf-8")
    (workplace.folder / "elsewhere").symlink_to(workplace.pictures)


# -- the fields ------------------------------------------------------------------------------

OTHER_ENCODERS = object()
SAME_ENCODERS = object()
CHANGES: dict[str, list[Change]] = {
    "source.type": [
        Change(
            "directory",
            base="tars",
            also={"source.input_path": None, "source.input_dir": "pictures"},
        )
    ],
    "source.input_dir": [Change("elsewhere")],
    "source.input_path": [Change("tars/*.tar", base="tars")],
    "source.hf_dataset": [Change("elsewhere", base="hub")],
    "source.hf_name": [Change("b", base="hub")],
    "source.hf_split": [Change("test", base="hub")],
    "source.hf_revision": [Change("main", base="hub")],
    "source.hf_data_files": [Change(["a/train-00000*"], base="hub")],
    "data_format.image_key": [Change("photo", base="hub", also={"data_format.image_keys": None})],
    "data_format.image_keys": [Change(["photo", "image"], base="hub")],
    "data_format.caption_key": [
        Change("prompt", base="hub", also={"data_format.caption_keys": None})
    ],
    "data_format.caption_keys": [Change(["prompt", "text"], base="hub")],
    "output.output_dir": [Change("out/other", refused="belongs to recipe")],
    "output.shard_size": [Change(3)],
    "output.max_samples": [Change(3, base="capped"), Change(3, refused="max_samples")],
    "output.shuffle_seed": [Change(3)],
    "output.train_split": [Change(0.75, base="halves")],
    "output.splits.train": [Change(0.75, base="three_splits", also={"output.splits.val": 0})],
    "output.splits.val": [Change(0.5, base="three_splits", also={"output.splits.test": 0})],
    "output.splits.test": [Change(0.5, base="three_splits", also={"output.splits.val": 0})],
    "output.splits": [Change({"train": 0.5, "val": 0.5})],
    "output.split_seed": [Change(1, base="halves")],
    "output.finalize": [Change(False)],
    "output.intermediates": [Change("keep")],
    "output.max_reject_rate": [Change(0.5)],
    "output.compress": [Change(True, refused="must be false")],
    "model.model_path": [Change(OTHER_ENCODERS), Change(SAME_ENCODERS)],
    "model.vae_path": [Change(OTHER_ENCODERS), Change(SAME_ENCODERS)],
    "model.t5_path": [Change(OTHER_ENCODERS), Change(SAME_ENCODERS)],
    "model.clip_path": [Change(OTHER_ENCODERS), Change(SAME_ENCODERS)],
    "model.precision": [Change("bf16")],
    "model.t5_max_length": [Change(12)],
    "model.vae_latent_mode": [Change("resample")],
    "model.seed": [Change(1)],
    "image.image_size": [Change(32)],
    "image.center_crop": [Change(True)],
    "image.variable_size": [Change(True, also={"image.image_size": None, "image.max_size": 64})],
    "image.max_size": [Change(96, base="variable"), Change(96)],
    "image.buckets": [Change({"tiers": [256]}, base="variable", also={"image.max_size": None, "image.variable_size": None})],
    "image.buckets.tiers": [Change([256, 512], base="buckets")],
    "image.buckets.min_aspect": [Change("3/4", base="buckets")],
    "image.buckets.max_aspect": [Change("3/2", base="buckets")],
    "image.buckets.max_upscale": [Change("6/5", base="buckets")],
    "image.background": [Change("#000000")],
    "image.min_side": [Change(97)],
    "image.max_pixels": [Change(20000)],
    "captions.choose": [
        Change("all", base="several_lines"),
        Change("random", base="several_lines"),
    ],
    "captions.allow_empty": [Change(True, base="several_lines")],
    "captions.lines": [Change("whole", base="several_lines")],
    "auth.hf_token_file": [Change("token")],
    "schedule": [Change("0 3 * * *")],
}


def fields_of(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Dotted names of all fields, those of nested sections in their section's place."""
    for name, info in model.model_fields.items():
        options = get_args(info.annotation) if _is_union(info.annotation) else (info.annotation,)
        sections = [o for o in options if isinstance(o, type) and issubclass(o, BaseModel)]
        if sections:
            yield from fields_of(sections[0], f"{prefix}{name}.")
        if not sections or len(options) > 1:
            yield f"{prefix}{name}"


def _is_union(annotation: object) -> bool:
    return isinstance(annotation, types.UnionType)


@pytest.fixture(scope="session")
def prepared(
    workplaces: Callable[[str], "Workplace"], drawing: Draw
) -> Callable[[str], "Workplace"]:
    """The workplace of a base, made once in this process and put back as it was."""

    @functools.cache
    def made(base: str) -> "Workplace":
        workplace = workplaces(base)
        BASES[base](workplace, drawing)
        report = workplace.run()
        assert report.error is None, report.error
        workplace.save("made")
        return workplace

    def restored(base: str) -> "Workplace":
        workplace = made(base)
        workplace.restore("made")
        return workplace

    return restored


def whole_stages(layout: Layout) -> dict[str, object]:
    """What decides each whole stage's content, as recorded on disk."""
    index = read_index(layout.source_index)
    plan = read_head(layout.shard_plan)
    prepared, validated = last_prepared(layout), last_validation(layout)
    return {
        "source_index": index and index.fingerprint,
        "shard_plan": plan and plan["fingerprint"],
        "energon_prepare": prepared and prepared["fingerprint"],
        "validate": validated and validated["fingerprint"],
    }


def foreseen(predicted: Forecast) -> tuple[Redone, tuple[str, ...]]:
    """What the forecast says would be redone, as `Change` has it."""
    redone, whole = {}, []
    for stage, state in predicted.stages.items():
        counts = state.counts()
        to_make = counts["stale"] + counts["missing"]
        if stage in ("source_index", "shard_plan", "energon_prepare", "validate"):
            whole += [stage] * to_make
        elif to_make:
            redone[stage] = (to_make, state.to_encode)
    return redone, tuple(whole)


def refusal(workplace: "Workplace", changes: Mapping[str, object]) -> str:
    """The words in which a run refuses to start or to go on."""
    try:
        report = workplace.run(changes)
    except RecipeError as error:
        return str(error)
    assert report.error is not None
    return report.error[1]


@pytest.fixture(scope="session")
def same_encoders(tiny_encoders: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The encoders of all bases at another place."""
    link = tmp_path_factory.mktemp("same") / "flux"
    link.symlink_to(tiny_encoders)
    return link


CASES = [
    pytest.param(name, change, id=f"{name}-{number}" if number else name)
    for name, changes in CHANGES.items()
    for number, change in enumerate(changes)
]


@pytest.mark.parametrize(("name", "change"), CASES)
def test_a_changed_field_redoes_what_depends_on_it_and_the_forecast_says_so(
    prepared: Callable[[str], "Workplace"],
    worked_on: Callable[[RunReport], Redone],
    other_encoders: Path,
    same_encoders: Path,
    name: str,
    change: Change,
):
    workplace = prepared(change.base)
    values = {OTHER_ENCODERS: str(other_encoders), SAME_ENCODERS: str(same_encoders)}
    value = values[change.value] if change.value in (OTHER_ENCODERS, SAME_ENCODERS) else change.value
    changes = {name: value, **change.also}
    if change.refused:
        before = workplace.tar_digests()
        assert change.refused in refusal(workplace, changes)
        assert workplace.tar_digests() == before
        return
    layout = workplace.dataset(changes).layout
    before = whole_stages(layout)
    predicted = workplace.forecast(changes)
    report = workplace.run(changes)
    redone = worked_on(report)
    after = whole_stages(layout)
    print("RESULT", name, redone, [k for k in before if before[k]!=after[k]], '| fore', foreseen(predicted), '|', {k: dict(v.why) for k,v in predicted.stages.items() if v.why})
    whole = tuple(stage for stage in before if before[stage] != after[stage])
    assert (redone, whole) == (dict(change.redone), change.whole)
    assert foreseen(predicted) == (redone, whole)
    reasons = [reason for stage in predicted.stages.values() for reason in stage.why]
    assert (change.why in reasons) if change.why else not reasons
    assert workplace.forecast(changes).stages.keys() == set(STAGES)
    assert foreseen(workplace.forecast(changes)) == ({}, ())


def test_every_field_has_its_entry():
    assert set(fields_of(Recipe)) == CHANGES.keys()
