"""Every field of a recipe changed in turn: exactly what depends on it is redone, and the forecast
says so beforehand, with the reason."""

import functools
import io
import tarfile
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import BaseModel

from diffprep_assets.curate.table import read_head as read_verdicts_head
from diffprep_assets.forecast import Forecast
from diffprep_assets.layout import Layout
from diffprep_assets.publishing.prepared import last_prepared
from diffprep_assets.recipe.execution import ExecutionSettings
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
    content is another. `files` are opened where that is not one a row. `why` is among the reasons
    that the forecast gives. `also` changes along; `refused` are words of the refusal instead.
    """

    value: object
    base: str = "squares"
    redone: Redone = field(default_factory=dict)
    whole: tuple[str, ...] = DESCRIBED
    why: str = ""
    also: Mapping[str, object] = field(default_factory=dict)
    files: int | None = None
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


def resampled(workplace: "Workplace", draw: Draw) -> None:
    """The trainer draws the noise, so that nothing here depends on a seed."""
    _directory(workplace, [draw(number) for number in range(2)])
    workplace.write_recipe(model={"vae_latent_mode": "resample"})


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
    for name, numbers in (("one", (0, 1)), ("two", (2,))):
        path = workplace.folder / "tars" / f"{name}.tar"
        path.parent.mkdir(exist_ok=True)
        with tarfile.open(path, "w") as tar:
            for drawing in (draw(number) for number in numbers):
                caption = drawing.caption.encode()
                for member, data in (
                    (drawing.name, drawing.data),
                    (f"{drawing.stem}.txt", caption),
                ):
                    info = tarfile.TarInfo(member)
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))
    _directory(workplace, [draw(number) for number in range(2)])
    workplace.write_recipe(source={"type": "webdataset", "input_path": "tars/one.tar"})


BASES = {
    base.__name__: base
    for base in (
        *(squares, several_lines, resampled, three_splits),
        *(capped, variable, buckets, hub, tars),
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

OTHER_ENCODERS, SAME_ENCODERS = "<other encoders>", "<the same encoders at another place>"
INDEXED = ("source_index", *PLANNED)


def shards(number: int, *, latents: int | None = None, text: int | None = None, tar: int) -> Redone:
    """`number` shards written with `tar` samples, of which so many were encoded; None leaves the
    stage alone."""
    stages = {"encode_latents": latents, "encode_text": text, "shard": tar}
    return {stage: (number, worked) for stage, worked in stages.items() if worked is not None}


def parts(number: int, *, opened: int, download: bool = False) -> Redone:
    """`number` bucket tables with `opened` rows from opened files, after a download or not."""
    return {**({"download": (number, 0)} if download else {}), "bucket": (number, opened)}


ALL_SHARDS = shards(2, latents=7, text=7, tar=7)
ALL_LATENTS = shards(2, latents=7, tar=7)
ALL_TEXT = shards(2, text=7, tar=7)

PHASH = "curate.dedup none -> {{max_distance: {}, method: phash, replace: {}}}"
DIGEST = "curate.dedup none -> {max_distance: 4, method: digest, replace: false}"

CHANGES: dict[str, list[Change]] = {
    "source.type": [
        Change(
            "directory",
            base="tars",
            also={"source.input_path": None, "source.input_dir": "pictures"},
            redone={
                **parts(1, opened=2, download=True),
                **shards(1, latents=2, text=2, tar=2),
            },
            whole=INDEXED,
            why="source.type webdataset -> directory",
        )
    ],
    "source.input_dir": [Change("elsewhere", whole=())],
    "source.input_path": [
        Change(
            "tars/*.tar",
            base="tars",
            redone={
                **parts(1, opened=1, download=True),
                **shards(1, latents=1, text=1, tar=3),
            },
            whole=INDEXED,
            why="1 file added",
        )
    ],
    "source.hf_dataset": [Change("elsewhere", base="hub", whole=())],
    "source.hf_name": [
        Change(
            "b",
            base="hub",
            redone={
                **parts(1, opened=2, download=True),
                **shards(1, latents=2, text=2, tar=2),
            },
            whole=INDEXED,
            files=1,
            why="source.hf_name a -> b",
        )
    ],
    "source.hf_split": [
        Change(
            "test",
            base="hub",
            redone={
                **parts(1, opened=2, download=True),
                **shards(1, latents=2, text=2, tar=2),
            },
            whole=INDEXED,
            files=1,
            why="source.hf_split train -> test",
        )
    ],
    "source.hf_revision": [Change("main", base="hub", why="source.hf_revision none -> main")],
    "source.hf_data_files": [
        Change(
            ["a/train-00000*"],
            base="hub",
            redone=shards(1, latents=0, text=0, tar=2),
            whole=INDEXED,
            why="source.hf_data_files none -> [a/train-00000*]",
        )
    ],
    "source.keep_downloads": [Change(False, whole=())],
    "data_format.image_key": [
        Change(
            "photo",
            base="hub",
            also={"data_format.image_keys": None},
            redone={**parts(2, opened=4), **shards(1, latents=4, tar=4)},
            whole=PLANNED,
            files=2,
            why="data_format.image_key none -> photo",
        )
    ],
    "data_format.image_keys": [
        Change(
            ["photo", "image"],
            base="hub",
            redone={**parts(2, opened=4), **shards(1, latents=4, tar=4)},
            whole=PLANNED,
            files=2,
            why="data_format.image_keys [image] -> [photo, image]",
        )
    ],
    "data_format.caption_key": [
        Change(
            "prompt",
            base="hub",
            also={"data_format.caption_keys": None},
            redone={**parts(2, opened=4), **shards(1, text=4, tar=4)},
            whole=PLANNED,
            files=2,
            why="data_format.caption_key none -> prompt",
        )
    ],
    "data_format.caption_keys": [
        Change(
            ["prompt", "text"],
            base="hub",
            redone={**parts(2, opened=4), **shards(1, text=4, tar=4)},
            whole=PLANNED,
            files=2,
            why="data_format.caption_keys [text] -> [prompt, text]",
        )
    ],
    "output.output_dir": [Change("out/other", refused="belongs to recipe set with output_dir")],
    "output.shard_size": [
        Change(
            3,
            redone=shards(3, latents=0, text=0, tar=7),
            whole=PLANNED,
            why="output.shard_size 4 -> 3",
        )
    ],
    "output.max_samples": [
        Change(
            3,
            base="capped",
            redone={
                **parts(1, opened=1, download=True),
                **shards(1, latents=1, text=1, tar=3),
            },
            whole=INDEXED,
            why="output.max_samples 2 -> 3",
        ),
        Change(3, refused="a planned dataset does not shrink"),
    ],
    "output.shuffle_seed": [Change(3, whole=PLANNED, why="output.shuffle_seed none -> 3")],
    "output.train_split": [Change(0.75, whole=PLANNED, why="output.train_split 1.0 -> 0.75")],
    "output.splits.train": [
        Change(
            0.75,
            base="three_splits",
            also={"output.splits.val": 0},
            whole=PLANNED,
            why="output.splits.train 0.5 -> 0.75",
        )
    ],
    "output.splits.val": [
        Change(
            0.5,
            base="three_splits",
            also={"output.splits.test": 0},
            whole=PLANNED,
            why="output.splits.val 0.25 -> 0.5",
        )
    ],
    "output.splits.test": [
        Change(
            0.5,
            base="three_splits",
            also={"output.splits.val": 0},
            whole=PLANNED,
            why="output.splits.test 0.25 -> 0.5",
        )
    ],
    "output.splits": [
        Change(
            {"train": 0.5, "val": 0.5},
            whole=PLANNED,
            why="output.splits none -> {test: 0.0, train: 0.5, val: 0.5}",
        )
    ],
    "output.split_seed": [
        Change(1, base="three_splits", whole=PLANNED, why="output.split_seed 0 -> 1")
    ],
    "output.formats": [Change(["raw", "energon"], refused="the first format cannot change")],
    "output.layout": [Change("per_bucket", base="buckets", why="output.layout one -> per_bucket")],
    "output.image_format": [Change("png", why="output.image_format jpg -> png")],
    "output.image_quality": [Change(80, why="output.image_quality none -> 80")],
    "output.resplit": [Change(True, whole=PLANNED, why="output.resplit false -> true")],
    "curate.dedup": [Change({"method": "digest"}, why=DIGEST)],
    "curate.dedup.method": [Change("digest", why=DIGEST)],
    "curate.dedup.max_distance": [
        Change(
            0,
            redone={"picture_hash": (1, 7)},
            why=PHASH.format(0, "false"),
        )
    ],
    "curate.dedup.replace": [
        Change(
            True,
            redone={"picture_hash": (1, 7)},
            why=PHASH.format(4, "true"),
        )
    ],
    # What is written is skipped: no shard is written anew.
    "curate.filters.min_side": [
        Change(97, whole=PLANNED, why="curate.filters.min_side none -> 97")
    ],
    "curate.filters.max_aspect": [
        Change("3/2", whole=PLANNED, why="curate.filters.max_aspect none -> 3/2")
    ],
    "curate.filters.caption_length": [
        Change(
            [35, None],
            whole=PLANNED,
            why="curate.filters.caption_length none -> [35, none]",
        )
    ],
    "curate.filters.banned": [Change("wombat", why="curate.filters.banned none -> [wombat]")],
    "curate.filters.where": [
        Change(
            "text is not null",
            base="hub",
            redone={"source_columns": (2, 4)},
            why="curate.filters.where none -> text is not null",
        )
    ],
    "curate.group_key": [
        Change(
            "text",
            base="hub",
            redone={"source_columns": (2, 4)},
            whole=PLANNED,
            why="curate.group_key none -> text",
        )
    ],
    "curate.skip_lists": [Change("none.txt", refused="none.txt")],
    "captions.clean": [Change("diffusers", why="captions.clean none -> diffusers")],
    "mds.latents": [Change(True, why="mds.latents false -> true")],
    "mds.text_latents": [Change(True, why="mds.text_latents false -> true")],
    "mds.caption_columns": [Change({"long": 1.0}, why="mds.caption_columns none -> {long: 1.0}")],
    "output.license": [Change("cc-by-4.0", why="output.license none -> cc-by-4.0")],
    "output.finalize": [Change(False, why="output.finalize true -> false")],
    "output.intermediates": [Change("keep", whole=())],
    "output.max_reject_rate": [Change(0.5, whole=())],
    "output.compress": [Change(True, refused="must be false")],
    "model.model_path": [
        Change(OTHER_ENCODERS, redone=ALL_SHARDS, why="model.vae changed"),
        Change(SAME_ENCODERS, whole=()),
    ],
    "model.vae_path": [
        Change(OTHER_ENCODERS, redone=ALL_LATENTS, why="model.vae changed"),
    ],
    "model.t5_path": [
        Change(OTHER_ENCODERS, redone=ALL_TEXT, why="model.t5 changed"),
    ],
    "model.clip_path": [
        Change(OTHER_ENCODERS, redone=ALL_TEXT, why="model.clip changed"),
    ],
    "model.precision": [Change("bf16", redone=ALL_SHARDS, why="model.precision fp32 -> bf16")],
    "model.t5_max_length": [Change(12, redone=ALL_TEXT, why="model.t5_max_length 24 -> 12")],
    "model.vae_latent_mode": [
        Change("resample", redone=ALL_LATENTS, why="model.vae_latent_mode presampled -> resample")
    ],
    "model.seed": [
        Change(1, redone=ALL_LATENTS, why="model.seed 0 -> 1"),
        Change(1, base="resampled", why="model.seed 0 -> 1"),
    ],
    "image.image_size": [
        Change(
            32,
            redone={**parts(1, opened=0), **shards(2, latents=7, text=0, tar=7)},
            whole=PLANNED,
            why="image.image_size 64 -> 32",
        )
    ],
    # The square picture is the same, cropped or not.
    "image.center_crop": [
        Change(
            True,
            redone={**parts(1, opened=0), **shards(2, latents=6, tar=7)},
            whole=PLANNED,
            why="image.center_crop false -> true",
        )
    ],
    # The square picture is 64 by 64 in this mode too.
    "image.variable_size": [
        Change(
            True,
            also={"image.image_size": None, "image.max_size": 64},
            redone={**parts(1, opened=0), **shards(4, latents=6, text=0, tar=7)},
            whole=PLANNED,
            why="image.variable_size none -> true",
        )
    ],
    "image.max_size": [
        Change(
            96,
            base="variable",
            redone={**parts(1, opened=0), **shards(3, latents=5, text=0, tar=5)},
            whole=PLANNED,
            why="image.max_size 128 -> 96",
        ),
        Change(96, why="image.max_size 1024 -> 96"),
    ],
    "image.buckets": [
        Change(
            None,
            base="buckets",
            also={"image.image_size": 64},
            redone={**parts(1, opened=0), **shards(1, latents=4, text=0, tar=4)},
            whole=PLANNED,
            why="image.image_size none -> 64",
        )
    ],
    "image.buckets.tiers": [
        Change(
            [256, 512],
            base="buckets",
            redone={**parts(1, opened=0), **shards(3, latents=1, text=0, tar=4)},
            whole=PLANNED,
            why="image.buckets.tiers [256] -> [256, 512]",
        )
    ],
    "image.buckets.min_aspect": [
        Change(
            "3/4",
            base="buckets",
            redone={**parts(1, opened=0), **shards(2, latents=0, text=0, tar=4)},
            whole=PLANNED,
            why="image.buckets.min_aspect 1/2 -> 3/4",
        )
    ],
    # The picture of 2:1 becomes a reject; a reject's file is opened.
    "image.buckets.max_aspect": [
        Change(
            "3/2",
            base="buckets",
            redone={**parts(1, opened=1), **shards(1, latents=0, text=0, tar=3)},
            whole=PLANNED,
            why="image.buckets.max_aspect 2 -> 3/2",
        )
    ],
    "image.buckets.max_upscale": [
        Change(
            "6/5",
            base="buckets",
            redone={**parts(1, opened=1), **shards(2, latents=0, text=0, tar=3)},
            whole=PLANNED,
            why="image.buckets.max_upscale 4/3 -> 6/5",
        )
    ],
    # The picture of 2:1 is nearest to 320x192, then to 320x208.
    "image.buckets.patch": [
        Change(
            8,
            base="buckets",
            redone={**parts(1, opened=0), **shards(2, latents=1, text=0, tar=4)},
            whole=PLANNED,
            why="image.buckets.patch none -> 8",
        )
    ],
    "image.buckets.shapes": [
        Change(
            [[256, 256], [320, 208]],
            base="buckets",
            redone={**parts(1, opened=0), **shards(2, latents=1, text=0, tar=4)},
            whole=PLANNED,
            why="image.buckets.shapes none -> [[256, 256], [320, 208]]",
        )
    ],
    "image.background": [
        Change("#000000", redone=ALL_LATENTS, why="image.background #ffffff -> #000000")
    ],
    "image.min_side": [
        Change(
            97,
            redone={**parts(1, opened=7), **shards(2, latents=0, text=0, tar=5)},
            whole=PLANNED,
            why="image.min_side 16 -> 97",
        )
    ],
    "image.max_pixels": [
        Change(
            20_000,
            redone={**parts(1, opened=7), **shards(2, latents=0, text=0, tar=5)},
            whole=PLANNED,
            why="image.max_pixels 150000000 -> 20000",
        )
    ],
    # The picture with two captions becomes two samples, of which the first caption is known.
    "captions.choose": [
        Change(
            "all",
            base="several_lines",
            redone={**parts(1, opened=4), **shards(1, latents=2, text=1, tar=3)},
            whole=PLANNED,
            files=3,
            why="captions.choose first -> all",
        ),
        Change(
            "random",
            base="several_lines",
            redone=parts(1, opened=3),
            whole=PLANNED,
            why="captions.choose first -> random",
        ),
    ],
    "captions.allow_empty": [
        Change(
            True,
            base="several_lines",
            redone={**parts(1, opened=3), **shards(1, latents=1, text=1, tar=3)},
            whole=PLANNED,
            why="captions.allow_empty false -> true",
        )
    ],
    "captions.lines": [
        Change(
            "whole",
            base="several_lines",
            redone={**parts(1, opened=3), **shards(1, text=1, tar=2)},
            whole=PLANNED,
            why="captions.lines each -> whole",
        )
    ],
    "auth.hf_token_file": [Change("token", whole=())],
    "schedule": [Change("0 3 * * *", whole=())],
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
    plan, verdicts = read_head(layout.shard_plan), read_verdicts_head(layout.curate)
    prepared, validated = last_prepared(layout), last_validation(layout)
    return {
        "source_index": index and index.fingerprint,
        "curate": verdicts and verdicts["fingerprint"],
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
        if stage in ("source_index", "curate", "shard_plan", "energon_prepare", "validate"):
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


# Each goes the way of a field that is tried in the shorter suite too.
LONGER = {
    *("source.hf_name", "source.hf_split", "source.hf_data_files", "source.hf_revision"),
    *("data_format.image_keys", "data_format.caption_keys", "output.image_quality"),
    *("output.splits", "output.splits.val", "output.splits.test", "output.max_reject_rate"),
    *("curate.dedup", "curate.dedup.replace", "curate.filters.max_aspect"),
    *("curate.filters.caption_length", "mds.latents", "mds.text_latents", "model.clip_path"),
    *("image.buckets.min_aspect", "image.buckets.max_upscale", "image.buckets.shapes"),
}
# By base: pytest-xdist hands out runs of neighbours, and a base is made once in each process.
CASES = [
    pytest.param(
        name,
        change,
        id=f"{name}-{number}" if number else name,
        marks=[pytest.mark.long] if name in LONGER else [],
    )
    for base in BASES
    for name, changes in CHANGES.items()
    for number, change in enumerate(changes)
    if change.base == base
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
    value = change.value
    if isinstance(value, str):
        value = {OTHER_ENCODERS: other_encoders, SAME_ENCODERS: same_encoders}.get(value, value)
    changes = {name: str(value) if isinstance(value, Path) else value, **change.also}
    if change.refused:
        before = workplace.tar_digests()
        assert change.refused in refusal(workplace, changes)
        assert workplace.tar_digests() == before
        return
    layout = workplace.dataset(changes).layout
    before = whole_stages(layout)
    predicted = workplace.forecast(changes)
    redone = dict(worked_on(workplace.run(changes)))
    if "download" in redone:
        redone["download"] = (redone["download"][0], 0)
    after = whole_stages(layout)
    whole = tuple(stage for stage in before if before[stage] != after[stage])
    expected = change.whole
    if name.startswith("curate.") or "bucket" in change.redone or "source_index" in expected:
        place = expected.index("source_index") + 1 if "source_index" in expected else 0
        expected = (*expected[:place], "curate", *expected[place:])
    assert (redone, whole) == (dict(change.redone), expected)

    if change.files is not None:
        redone["bucket"] = (redone["bucket"][0], change.files)
    foretold, said = foreseen(predicted)
    if name.startswith("curate.") and "shard_plan" not in whole:
        # Whether verdicts will come out otherwise is known only once they are made.
        said = tuple(stage for stage in said if stage != "shard_plan")
    assert (foretold, said) == (redone, whole)
    reasons = [reason for stage in predicted.stages.values() for reason in stage.why]
    assert (change.why in reasons) if change.why else not reasons
    assert all(stage.is_fresh or stage.why for stage in predicted.stages.values())
    assert foreseen(workplace.forecast(changes)) == ({}, ())


@pytest.mark.parametrize(("name", "value"), [("model.batch_size", 2), ("model.device", None)])
def test_what_decides_speed_alone_makes_nothing_stale(
    prepared: Callable[[str], "Workplace"],
    worked_on: Callable[[RunReport], Redone],
    name: str,
    value: object,
):
    workplace = prepared("squares")
    before = whole_stages(workplace.dataset().layout)
    assert foreseen(workplace.forecast({name: value})) == ({}, ())
    assert worked_on(workplace.run({name: value})) == {}
    assert worked_on(workplace.run(batch_size=3, workers=2)) == {}
    assert whole_stages(workplace.dataset().layout) == before


def test_every_field_has_its_entry():
    # Those of clips are tried in tests/diffprep_assets/recipe/test_stage_fields.py.
    of_pictures = {name for name in fields_of(Recipe) if name.split(".")[0] != "video"}
    assert of_pictures == CHANGES.keys()
    # The first two are tried above; the third is no key of a recipe.
    assert set(ExecutionSettings.model_fields) == {"batch_size", "device", "cpu_workers"}
