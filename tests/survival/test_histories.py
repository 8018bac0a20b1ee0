"""Random histories of one dataset: whatever happens, the next run ends with what is there now.

A history edits the source, changes the recipe, breaks files, kills runs. After each step a run must
end with each sample that a direct encode of the present source gives, at the least cost.
"""

import io
import json
import os
import random
import re
import shutil
import signal
import tarfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from PIL import Image

from diffprep_assets.bucket.scan import BucketRules, scanned
from diffprep_assets.bucket.table import BucketRow
from diffprep_assets.dataset import Dataset
from diffprep_assets.encode_latents.worker import picture_fingerprint
from diffprep_assets.encode_text.worker import caption_fingerprint
from diffprep_assets.forecast import Forecast
from diffprep_assets.run_report import RunReport
from diffprep_assets.shard_plan.plan import PlannedSample
from diffprep_assets.shard_plan.table import read_plan, read_shards
from diffprep_assets.source_index.table import read_index
from diffprep_assets.validate.dataset import validate_dataset
from diffprep_assets.validate.update import mark_bad
from diffprep_resources.pictures.decode import PictureLimits, load_upright
from diffprep_resources.pictures.fit import Crop, fit
from diffprep_resources.sources.base import Location
from diffprep_resources.storage.parquet_tables import DamagedTableError

if TYPE_CHECKING:
    from tests.conftest import Drawing
    from tests.survival.conftest import Workplace

Draw = Callable[..., "Drawing"]
Tensors = dict[str, torch.Tensor]
BATCH = 4
ENCODE_STAGES: tuple[str, ...] = ("encode_latents", "encode_text")
CAPTIONS = ("", "a", "a cat", "a dog, na\u00efve", "one of many words " * 9, "a\nb")
SIZES = ((150, 100), (100, 150), (64, 64), (200, 40), (300, 100))

IMAGE: tuple[dict[str, Any], ...] = (
    {"image_size": 64},
    {"image_size": 32},
    {"image_size": 64, "center_crop": True},
    {"image_size": 64, "background": "#203040"},
    {"variable_size": True, "max_size": 64},
    {"buckets": {"tiers": [256]}},
)
RECIPE: dict[str, tuple[Any, ...]] = {
    "output.shard_size": (1, 2, 3, 5, 50),
    "output.train_split": (1.0, 0.8, 0.5),
    "output.shuffle_seed": (None, 1, 2),
    "output.split_seed": (0, 1),
    "output.intermediates": ("prune", "keep"),
    "output.finalize": (True, True, False),
    "model.precision": ("fp32", "bf16", "fp16"),
    "model.vae_latent_mode": ("presampled", "resample"),
    "model.t5_max_length": (24, 16),
    "model.seed": (0, 1),
    "captions.allow_empty": (False, True),
    "captions.lines": ("whole", "each"),
    "captions.choose": ("first", "all", "random"),
}


class Oracle:
    """What each sample must hold: encoded by itself, in a batch of padding."""

    def __init__(self) -> None:
        self._encoders: dict[str, Any] = {}
        self._rows: dict[str, Tensors] = {}

    def rows(self, dataset: Dataset) -> dict[str, BucketRow]:
        """The samples that the source holds now, rejected ones too."""
        source = dataset.source
        paths = sorted(file.path for file in source.listing().files)
        rules = BucketRules(dataset.recipe.image, dataset.recipe.captions)
        looked_at = scanned(source.stamps(paths), source=source, rules=rules, known={})
        return {row.source_key: row for rows, _ in looked_at for row in rows}

    def tensors(self, dataset: Dataset, row: BucketRow, planned: PlannedSample) -> Tensors:
        latents = self._latents(dataset, row, planned)
        return {**latents, **self._text(dataset, row.caption or "")}

    def _latents(self, dataset: Dataset, row: BucketRow, planned: PlannedSample) -> Tensors:
        box: Any = (row.crop_left, row.crop_top, row.crop_width, row.crop_height)
        parts = (row.image_digest, box, row.width, row.height, planned.sample_id)
        key = json.dumps([*parts, dataset.latents_settings], sort_keys=True, default=str)
        if key not in self._rows:
            data = dataset.source.read_image(Location(row.path))
            image = dataset.recipe.image
            limits = PictureLimits(max_pixels=image.max_pixels, min_side=image.min_side)
            picture = load_upright(data, limits=limits, background=image.background)
            width, height = row.width or 0, row.height or 0
            pixels = fit(picture, crop=Crop(*box), width=width, height=height)
            batch = np.stack([pixels, *[np.zeros_like(pixels)] * (BATCH - 1)])
            ids = [planned.sample_id, *[0] * (BATCH - 1)]
            encoder = self._encoder(dataset, "latents", dataset.latents_settings)
            self._rows[key] = first(encoder.encode(batch, sample_ids=ids))
        return self._rows[key]

    def _text(self, dataset: Dataset, caption: str) -> Tensors:
        key = json.dumps([caption, dataset.text_settings], sort_keys=True)
        if key not in self._rows:
            encoder = self._encoder(dataset, "text", dataset.text_settings)
            self._rows[key] = first(encoder.encode([caption, *[""] * (BATCH - 1)]))
        return self._rows[key]

    def _encoder(self, dataset: Dataset, kind: str, settings: Mapping[str, Any]) -> Any:
        key = kind + json.dumps(settings, sort_keys=True)
        if key not in self._encoders:
            self._encoders[key] = getattr(dataset.encoders, f"{kind}_encoder")("cpu")
        return self._encoders[key]


def first(rows: Tensors) -> Tensors:
    return {name: tensor[0].clone() for name, tensor in rows.items()}


def published(output: Path) -> dict[str, dict[str, bytes]]:
    """The members of each sample in the published tars, by key."""
    samples: dict[str, dict[str, bytes]] = {}
    for path in sorted(output.rglob("*.tar")):
        with tarfile.open(path) as tar:
            for member in tar:
                key, _, name = member.name.partition(".")
                content = tar.extractfile(member)
                assert content is not None
                assert name not in samples.setdefault(key, {}), f"{key} is there twice"
                samples[key][name] = content.read()
    return samples


@dataclass
class History:
    """One dataset with all that happened to it; `exact` while the cost of a run is known."""

    place: "Workplace"
    draw: Draw
    oracle: Oracle
    chance: random.Random
    settings: dict[str, Any] = field(default_factory=dict)
    image: dict[str, Any] = field(default_factory=lambda: dict(IMAGE[0]))
    told: list[str] = field(default_factory=list)
    known: dict[str, tuple[int, str]] = field(default_factory=dict)
    held: dict[str, set[str]] = field(default_factory=dict)
    exact: bool = True
    loses_plan: bool = False
    rotten: bool = False
    moves: int = 0

    @property
    def images(self) -> list[Path]:
        return sorted((self.place.pictures / "images").iterdir())

    def caption_of(self, image: Path) -> Path:
        return self.place.pictures / "captions" / f"{image.stem}.txt"

    def any_image(self) -> Path:
        return self.chance.choice(self.images)

    # -- the source ----------------------------------------------------------------------

    def add(self) -> None:
        number = self.chance.randrange(40)
        drawing = self.draw(
            number, size=self.chance.choice(SIZES), version=self.chance.randrange(3)
        )
        image = self.place.pictures / "images" / drawing.name
        image.write_bytes(drawing.data)
        self.caption_of(image).write_text(f"{drawing.caption} {number % 3}", "utf-8")

    def change_caption(self) -> None:
        self.caption_of(self.any_image()).write_text(self.chance.choice(CAPTIONS), "utf-8")

    def lose_caption(self) -> None:
        self.caption_of(self.any_image()).unlink(missing_ok=True)

    def replace(self) -> None:
        drawing = self.draw(
            self.chance.randrange(40),
            size=self.chance.choice(SIZES),
            version=self.chance.randrange(3),
        )
        self.any_image().write_bytes(drawing.data)

    def rotate(self) -> None:
        path = self.any_image()
        try:
            with Image.open(path) as image:
                turned = image.transpose(Image.Transpose.ROTATE_90)
                turned.save(path, image.format)
        except OSError:
            pass

    def spoil(self) -> None:
        self.any_image().write_bytes(b"\xff\xd8 no picture")

    def delete(self) -> None:
        if len(self.images) > 3:
            self.any_image().unlink()

    def rename(self) -> None:
        image = self.any_image()
        caption = self.caption_of(image)
        named = image.with_stem(f"{image.stem[:4]}{self.chance.randrange(9)}")
        if not named.exists():
            image.rename(named)
            if caption.exists():
                caption.rename(self.caption_of(named))

    def touch_source(self) -> None:
        for path in self.chance.sample(self.images, 2):
            path.touch()

    # -- the recipe ----------------------------------------------------------------------

    def resize(self) -> None:
        self.image = dict(self.chance.choice(IMAGE))

    def change_recipe(self) -> None:
        name = self.chance.choice(sorted(RECIPE))
        self.settings[name] = self.chance.choice(RECIPE[name])
        self.told.append(f"{name}={self.settings[name]}")

    def move_output(self) -> None:
        self.moves += 1
        old = self.output
        self.settings["output.output_dir"] = f"out/moved{self.moves}"
        if old.exists():
            shutil.move(old, self.output)

    @property
    def output(self) -> Path:
        return self.place.folder / self.settings.get("output.output_dir", "out/set")

    # -- the disk ------------------------------------------------------------------------

    def files(self) -> list[Path]:
        found = [*self.place.work.rglob("*"), *self.output.rglob("*")]
        return sorted(path for path in found if path.is_file() and ".locks" not in path.parts)

    def lose(self, path: Path) -> None:
        self.told.append(path.relative_to(self.place.folder).as_posix())
        self.exact = False
        self.loses_plan |= path.name == "shard_plan.parquet"

    def lose_file(self) -> None:
        for path in self.chance.sample(self.files(), self.chance.choice((1, 1, 5))):
            self.lose(path)
            path.unlink()

    def cut_file(self) -> None:
        path = self.chance.choice(self.files())
        self.lose(path)
        data = path.read_bytes()
        path.unlink()
        path.write_bytes(data[: self.chance.randrange(len(data) + 1)])
        self.rotten = True

    def flip_byte(self) -> None:
        # Without the metadata of `finalize` no digest is published, and nothing can tell.
        told = self.dataset().recipe.output.finalize
        path = self.chance.choice([path for path in self.files() if told or path.suffix != ".tar"])
        data = bytearray(path.read_bytes())
        if data:
            self.lose(path)
            data[self.chance.randrange(len(data))] ^= 1 << self.chance.randrange(8)
            # In place: a published name may be a link to it.
            with path.open("r+b") as file:
                file.write(data)
            self.rotten = True

    def lose_folder(self) -> None:
        folders = [self.place.work, self.output, *self.place.work.glob("*/")]
        folder = self.chance.choice(folders)
        self.told.append(folder.name)
        self.exact = False
        self.loses_plan |= folder == self.place.work
        shutil.rmtree(folder, ignore_errors=True)

    def touch_files(self) -> None:
        for path in self.files():
            os.utime(path, (1e9, 1e9))
        self.exact = False

    def kill(self) -> None:
        """A run of a forked process, ended at a random moment."""
        number = self.chance.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM))
        after = self.chance.uniform(0.0, 1.5)
        self.told.append(f"{number.name} after {after:.2f}")
        self.exact = False
        child = os.fork()
        if child == 0:
            signal.alarm(100)
            self.place.__dict__.pop("instance", None)
            try:
                self.run()
            finally:
                os._exit(0)
        time.sleep(after)
        os.kill(child, number)
        os.waitpid(child, 0)

    # -- runs ----------------------------------------------------------------------------

    def overrides(self) -> dict[str, Any]:
        return {f"image.{name}": value for name, value in self.image.items()} | self.settings

    def dataset(self) -> Dataset:
        return self.place.dataset(self.overrides())

    def run(self) -> RunReport:
        return self.place.run(self.overrides())

    def step(self) -> None:
        names = [
            self.chance.choice(sorted(EVENTS)) for _ in range(self.chance.choice((1, 1, 2, 3)))
        ]
        for name in names:
            self.told.append(name)
            EVENTS[name](self)
        if self.rotten:
            self.mend()
        try:
            self.check()
        except BaseException as error:
            error.add_note("\n".join(self.told))
            raise
        self.told.append("--")
        self.exact, self.loses_plan, self.rotten = True, False, False

    def mend(self) -> None:
        """Runs and validations, as a person goes on after bytes rotted."""
        for _ in range(4):
            try:
                error = self.run().error
            except DamagedTableError as damage:
                error = ("source_index", str(damage))
            self.told.append(f"-> {error}")
            damaged = re.search(r"(\S+) is damaged", error[1]) if error else None
            if damaged:
                self.lose(Path(damaged[1]))
                Path(damaged[1]).unlink(missing_ok=True)
            if error is None and self.is_valid():
                return

    def is_valid(self) -> bool:
        """As `diffprep validate --full` on the output folder: what is bad is marked."""
        layout = self.dataset().layout
        found = validate_dataset(self.output, full=True)
        if not found.ok:
            self.told.append(f"-> {found.failures[:2]}")
            mark_bad(layout, found)
        return found.ok

    def check(self) -> None:
        dataset = self.dataset()
        predicted = predicted_by(self)
        before = stamps(self)
        report = self.run()
        expected = self.oracle.rows(dataset)
        kept = {key: row for key, row in expected.items() if row.code is None}
        if report.error is not None and self.refuses(report.error[1], kept):
            return
        assert report.error is None, report.error
        planned = {
            row.sample.source_key: row for row in read_plan(dataset.layout.shard_plan).samples
        }
        self.check_samples(dataset, kept, planned)
        assert (report.listed, report.written) == (len(expected), len(kept))
        assert report.listed == report.written + sum(report.rejects.values())
        if self.loses_plan:
            self.known, self.held = {}, {}
        ids = {key: (row.sample_id, row.split) for key, row in planned.items()}
        assert {key: ids[key] for key in self.known} == self.known
        self.known = ids
        self.check_cost(dataset, report, planned)
        self.check_prediction(predicted, report, before)
        found = validate_dataset(self.output, full=True)
        assert found.ok, found.failures
        assert self.place.leftovers() == []
        self.check_rest()

    def refuses(self, message: str, kept: Mapping[str, BucketRow]) -> bool:
        """Whether there is nothing to make, and the run said so."""
        splits = {self.known[key][1] for key in kept if key in self.known}
        if "0 samples to write" in message:
            return not kept
        return "split train has no sample" in message and "train" not in splits

    def check_samples(
        self,
        dataset: Dataset,
        kept: Mapping[str, BucketRow],
        planned: Mapping[str, PlannedSample],
    ) -> None:
        found = published(self.output)
        assert set(found) == {planned[key].key for key in kept}
        for key, row in kept.items():
            members = found[planned[key].key]
            content = json.loads(members.pop("json"))
            told = {name: getattr(row, name) for name in content}
            assert content == told, key
            assert members.pop("caption.txt").decode() == row.caption, key
            tensors = {name: torch.load(io.BytesIO(data)) for name, data in members.items()}
            wanted = self.oracle.tensors(dataset, row, planned[key])
            assert set(tensors) == {f"{name}.pth" for name in wanted}, key
            for name, tensor in wanted.items():
                away = (tensors[f"{name}.pth"].float() - tensor.float()).abs().max()
                assert away == 0, (key, name, away)

    def check_cost(
        self, dataset: Dataset, report: RunReport, planned: Mapping[str, PlannedSample]
    ) -> None:
        """No sample is encoded whose rows stood in its shard, or in one that a member came from."""
        needs = dict.fromkeys(ENCODE_STAGES, 0)
        holds: dict[str, set[str]] = {}
        by_shard: dict[str, list[PlannedSample]] = {}
        for row in planned.values():
            if row.shard is not None:
                by_shard.setdefault(row.shard, []).append(row)
        for shard, rows in by_shard.items():
            there = {shard, *(name for row in rows for name in row.former)}
            known = set().union(*(self.held.get(name, set()) for name in there))
            holds[shard] = set()
            for row in rows:
                made: dict[str, str] = {
                    "encode_latents": picture_fingerprint(row, dataset.latents_settings),
                    "encode_text": caption_fingerprint(row, dataset.text_settings),
                }
                holds[shard] |= set(made.values())
                for stage, fingerprint in made.items():
                    needs[stage] += fingerprint not in known
        encoded = {stage: report.summaries[stage].samples.encoded for stage in ENCODE_STAGES}
        if self.exact:
            assert encoded == needs
        self.held = holds

    def check_prediction(
        self, predicted: Forecast, report: RunReport, before: Mapping[str, Any]
    ) -> None:
        if self.rotten:
            return
        for stage in (*ENCODE_STAGES, "shard", "download", "bucket"):
            told, made = predicted.stages[stage], report.summaries[stage]
            stale = sum(count for state, count in told.counts().items() if state != "fresh")
            assert stale == made.done, (stage, told)
            if stage != "download":
                assert told.to_encode == made.samples.encoded, (stage, told)
        after = stamps(self)
        for stage, stamp in before.items():
            assert predicted.stages[stage].is_fresh == (stamp == after[stage]), stage

    def check_rest(self) -> None:
        """All is fresh; a further run would do nothing, and now and then one shows it."""
        again = predicted_by(self)
        stale = {
            name: dict(stage.why) for name, stage in again.stages.items() if not stage.is_fresh
        }
        assert stale == {}
        if self.chance.random() < 0.3:
            files = everything(self)
            report = self.run()
            assert report.error is None
            assert everything(self) == files
            assert not any(summary.done for summary in report.summaries.values())


def predicted_by(history: History) -> Forecast:
    return history.place.forecast(history.overrides())


def stamps(history: History) -> dict[str, Any]:
    """What changes when a stage that is no partition's writes something else."""
    layout = history.dataset().layout
    index = read_index(layout.source_index)
    files = {
        "shard_plan": layout.shards,
        "energon_prepare": layout.prepared,
        "validate": layout.validation,
    }
    times = {stage: path.exists() and path.stat().st_mtime_ns for stage, path in files.items()}
    return {"source_index": index and index.fingerprint, **times}


def everything(history: History) -> dict[Path, Any]:
    """All files by inode and time; those that each run writes, by content."""
    views = {"source_index.parquet", "rejects.parquet"}
    return {
        path: path.read_bytes()
        if path.name in views
        else (path.stat().st_ino, path.stat().st_mtime_ns)
        for path in history.files()
    }


EDITS: tuple[Callable[[History], None], ...] = (
    History.add,
    History.add,
    History.change_caption,
    History.change_caption,
    History.lose_caption,
    History.replace,
    History.rotate,
    History.spoil,
    History.delete,
    History.rename,
    History.touch_source,
)
CHANGES = (History.resize, History.change_recipe, History.change_recipe, History.move_output)
HARM = (
    History.lose_file,
    History.cut_file,
    History.flip_byte,
    History.lose_folder,
    History.touch_files,
    History.kill,
)
EVENTS = {
    f"{number:02d} {event.__name__}": event
    for number, event in enumerate((*EDITS, *CHANGES, *HARM))
}


@pytest.fixture(scope="session")
def oracle() -> Oracle:
    return Oracle()


@pytest.mark.parametrize(
    ("seed", "steps"),
    [
        (1, 5),
        *[pytest.param(seed, 25, marks=pytest.mark.long) for seed in range(2, 12)],
    ],
)
def test_after_any_history_the_dataset_is_what_the_source_is(
    workplace: "Workplace", drawing: Draw, oracle: Oracle, seed: int, steps: int
):
    (workplace.pictures / "images").mkdir(parents=True)
    (workplace.pictures / "captions").mkdir()
    workplace.write_recipe(output={"shard_size": 3})
    history = History(workplace, drawing, oracle, random.Random(seed))
    for _ in range(8):
        history.add()
    history.check()
    for _ in range(steps):
        history.step()


def test_what_rots_in_a_shards_own_files_reaches_no_tar(workplace: "Workplace", drawing: Draw):
    """A kept row file is not read where the tar has the row, and rows that cannot be read are
    encoded again."""
    (workplace.pictures / "images").mkdir(parents=True)
    (workplace.pictures / "captions").mkdir()
    workplace.write_recipe(output={"shard_size": 3, "intermediates": "keep"})
    history = History(workplace, drawing, Oracle(), random.Random(0))
    for _ in range(5):
        history.add()
    history.check()
    layout = history.dataset().layout
    shard = read_shards(layout.shards)[0].shard
    rotten = layout.latents(shard)
    data = bytearray(rotten.read_bytes())
    data[-200:-100] = bytes(100)
    rotten.write_bytes(data)
    for path in (workplace.pictures / "captions").iterdir():
        path.write_text(f"{path.stem}, another one")
    history.check()
    rotten.unlink()
    for damage in (slice(0, 100), slice(None, None, -1)):
        history.exact = False
        rows = layout.shard_samples(shard)
        rows.write_bytes(rows.read_bytes()[damage])
        history.check()
    # The footer stays, what it points to goes: this shows when the rows are read.
    rows.write_bytes(b"PAR1" + bytes(300) + rows.read_bytes()[304:])
    for path in (workplace.pictures / "captions").iterdir():
        path.write_text(f"{path.stem}, one more")
    history.check()
