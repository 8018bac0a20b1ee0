"""Verdicts over a folder of pictures, from its files to the table, without Dagster."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from PIL import Image as Picture

from diffprep_assets.bucket.scan import BucketRules
from diffprep_assets.bucket.worker import BucketSpec, bucket_task
from diffprep_assets.curate.assets import curate_metadata, unmatched_words
from diffprep_assets.curate.inputs import verdicts_are_fresh
from diffprep_assets.curate.skip_files import SkipEntry, write_stored_list
from diffprep_assets.curate.table import Verdict, read_verdicts
from diffprep_assets.curate.update import CurateUpdate, update_curate
from diffprep_assets.dataset import Dataset
from diffprep_assets.download.worker import DownloadSpec, download_task
from diffprep_assets.recipe.formats import needs_columns
from diffprep_assets.recipe.load import load_recipe
from diffprep_assets.recipe.stage_fields import bucket_fields, columns_fields
from diffprep_assets.shard_plan.update import update_plan
from diffprep_assets.source_columns.worker import ColumnsSpec, columns_task
from diffprep_assets.source_index.listing import listed_index
from diffprep_assets.source_index.table import SourceIndex, write_index
from diffprep_resources.errors import SettingError, StageInputError


class Curated:
    """A folder of pictures and a recipe's `curate`; `update` runs the stages up to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.curate: dict[str, Any] = {}
        self.captions = "first"

    def add(
        self, name: str, size: tuple[int, int] = (64, 64), color: int = 0, **fields: Any
    ) -> None:
        buffer = io.BytesIO()
        Picture.new("RGB", size, (color, 0, 0)).save(buffer, "png")
        path = self.folder / f"pictures/{name}.png"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(buffer.getvalue())
        path.with_suffix(".txt").write_text(fields.pop("caption", f"caption of {name}"))
        if fields:
            path.with_suffix(".json").write_text(json.dumps(fields))

    @property
    def dataset(self) -> Dataset:
        recipe = {
            "source": {"type": "directory", "input_dir": "pictures"},
            "output": {"output_dir": "out", "formats": ["raw"]},
            "image": {"image_size": 64},
            "captions": {"choose": self.captions, "lines": "each"},
            "curate": self.curate,
        }
        path = self.folder / "set.yaml"
        path.write_text(yaml.safe_dump(recipe))
        return Dataset(load_recipe(path, base=self.folder), self.folder / "work")

    def tables(self) -> SourceIndex:
        dataset = self.dataset
        index = listed_index(dataset)
        write_index(dataset.layout.source_index, index)
        layout, source, settings = dataset.layout, dataset.source, bucket_fields(dataset.recipe)
        rules = BucketRules(dataset.recipe.image, dataset.recipe.captions)
        for part, paths in index.paths().items():
            stamps = download_task(part, paths, source=source, revision=None)
            DownloadSpec(layout, source).build().process(stamps, _unheard)
            task = bucket_task(layout, part, settings=settings, limit=None)
            assert task is not None
            BucketSpec(layout, source, rules, settings).build().process(task, _unheard)
            if needs_columns(dataset.recipe):
                asked = columns_fields(dataset.recipe)
                fields = columns_task(layout, part, source=source, settings=asked)
                assert fields is not None
                ColumnsSpec(layout, source, asked).build().process(fields, _unheard)
        return index

    def update(self) -> CurateUpdate:
        return update_curate(self.dataset, self.tables())

    @property
    def verdicts(self) -> dict[str, Verdict]:
        found = read_verdicts(self.dataset.layout.curate)
        return {key.replace(".png", ""): verdict for key, verdict in found.items()}

    @property
    def rules(self) -> dict[str, tuple[str | None, str | None]]:
        """Code and rule of each sample that is out."""
        return {key: (row.code, row.rule) for key, row in self.verdicts.items() if not row.keep}


def _unheard(num_samples: int, rejected: int = 0, /) -> None:
    pass


@pytest.fixture
def curated(tmp_path: Path) -> Curated:
    return Curated(tmp_path)


def test_without_rules_every_sample_stays_and_no_row_is_written(curated: Curated) -> None:
    curated.add("a")
    curated.add("b", caption="")
    update = curated.update()
    assert (update.samples, update.rejected, update.changed) == (1, 0, True)
    assert curated.verdicts == {}
    assert not curated.update().changed
    assert curate_metadata(update)["samples_out"] == 1


def test_each_rule_rejects_what_it_says_the_first_one_winning(curated: Curated) -> None:
    curated.add("listed", (20, 64), score=0)
    curated.add("small", (20, 64), score=0)
    curated.add("long", (64, 200), score=0)
    curated.add("wordy", caption="x" * 90, score=0)
    curated.add("bad", caption="a Watermark", score=0)
    curated.add("low", score=1)
    curated.add("unknown", other=1)
    curated.add("fine", score=5)
    (curated.folder / "out.txt").write_text("listed.png\ntypo.png\n")
    curated.curate = {
        "filters": {
            "where": "score >= 5",
            "banned": ["watermark"],
            "caption_length": [None, 80],
            "max_aspect": 3,
            "min_side": 32,
        },
        "skip_lists": ["out.txt"],
    }
    update = curated.update()
    assert curated.rules == {
        "listed": ("skip_list", "skip_list:out.txt"),
        "small": ("filter_min_side", "filters.min_side"),
        "long": ("filter_max_aspect", "filters.max_aspect"),
        "wordy": ("filter_caption_length", "filters.caption_length"),
        "bad": ("filter_banned", "filters.banned"),
        "low": ("filter_where", "filters.where"),
        "unknown": ("filter_null", "filters.where"),
    }
    assert curated.verdicts["low"].message == "score is 1; asked is `score >= 5`"
    assert curated.verdicts["unknown"].message == "score is missing, for `score >= 5`"
    assert update.samples == 8
    assert update.rules["filters.where"] == 2
    assert unmatched_words(update) == [
        "skip list out.txt: 1 of 2 entries name no sample, such as typo.png"
    ]


def test_duplicates_are_sought_among_what_the_rules_left(curated: Curated) -> None:
    for name in ("a", "b", "c", "single"):
        curated.add(name, color=9 if name == "single" else 0, score=0 if name == "a" else 5)
    curated.curate = {"dedup": {"method": "digest"}, "filters": {"where": "score > 1"}}
    curated.update()
    assert curated.rules == {"a": ("filter_where", "filters.where"), "c": ("duplicate", "dedup")}
    groups = {key: row.group for key, row in curated.verdicts.items()}
    assert groups == {"a": None, "b": "dup:b.png", "c": "dup:b.png"}


def test_no_copy_comes_in_the_place_of_a_picture_that_a_list_names(curated: Curated) -> None:
    for name, score in {"a": 5, "b": 5, "c": 0, "d": 5}.items():
        curated.add(name, color=9 if name in "cd" else 0, score=score)
    (curated.folder / "out.txt").write_text("a.png\nc.png\n")
    curated.curate = {
        "dedup": {"method": "digest"},
        "filters": {"where": "score > 1"},
        "skip_lists": ["out.txt"],
    }
    curated.update()
    assert {key: code for key, (code, _) in curated.rules.items()} == {
        "a": "skip_list",
        "b": "duplicate",
        "c": "skip_list",
    }


def test_captions_of_a_picture_are_one_picture_to_dedup_and_to_lists(curated: Curated) -> None:
    curated.captions = "all"
    for name in ("a", "b", "c"):
        curated.add(name, color=9 if name == "c" else 0, caption=f"{name} one\n{name} two")
    (curated.folder / "out.txt").write_text("c.png\n")
    curated.curate = {"dedup": {"method": "digest"}, "skip_lists": ["out.txt"]}
    curated.update()
    assert {key: code for key, (code, _) in curated.rules.items()} == {
        "b::c0": "duplicate",
        "b::c1": "duplicate",
        "c::c0": "skip_list",
        "c::c1": "skip_list",
    }


def test_a_group_key_comes_before_duplicates_where_a_sample_has_its_value(
    curated: Curated,
) -> None:
    for name in "ab":
        curated.add(name, artist="x")
    for name, color in {"c": 9, "d": 5, "e": 5}.items():
        curated.add(name, color=color)
    curated.curate = {"group_key": "artist", "dedup": {"method": "digest"}}
    curated.update()
    assert {key: (row.keep, row.group) for key, row in curated.verdicts.items()} == {
        "a": (True, "key:x"),
        "b": (False, "key:x"),
        "d": (True, "dup:d.png"),
        "e": (False, "dup:d.png"),
    }


def test_skip_lists_are_unioned_and_know_the_plans_ids(curated: Curated) -> None:
    for name in "abcde":
        curated.add(name, color=ord(name))
    index = curated.tables()
    curated.update()
    plan = update_plan(curated.dataset, index)
    assert plan.listed == 5
    layout = curated.dataset.layout
    digest = "0" * 32
    (curated.folder / "ids.txt").write_text(f"0000000001\n77\n{digest}\n")
    write_stored_list(
        layout.skip_lists / "ugly.parquet", [SkipEntry("d.png", "source_key", "too dark")]
    )
    curated.curate = {"skip_lists": ["ids.txt"]}
    update = curated.update()
    assert curated.rules == {
        "b": ("skip_list", "skip_list:ids.txt"),
        "d": ("skip_list", "skip_list:ugly"),
    }
    assert curated.verdicts["d"].message == "too dark"
    assert update.skip_lists["ids.txt"]["first_unmatched"] == ["0000000077", digest]
    assert update.skip_lists["ugly"]["unmatched"] == 0


def test_verdicts_are_fresh_until_a_rule_a_table_or_a_list_changes(curated: Curated) -> None:
    curated.add("a", score=1)
    skips = curated.folder / "out.txt"
    skips.write_text("b.png\n")
    curated.curate = {"skip_lists": ["out.txt"], "filters": {"where": "score > 0"}}
    index = curated.tables()
    update_curate(curated.dataset, index)
    before = curated.dataset.layout.curate.read_bytes()
    assert verdicts_are_fresh(curated.dataset, index.parts.parts)
    assert not update_curate(curated.dataset, index).changed
    curated.dataset.layout.curate.unlink()
    update_curate(curated.dataset, index)
    assert curated.dataset.layout.curate.read_bytes() == before

    skips.write_text("a.png\n")
    assert not verdicts_are_fresh(curated.dataset, index.parts.parts)
    assert curated.update().codes == {"skip_list": 1}
    skips.write_text("b.png\n")
    curated.curate["filters"] = {"where": "score > 1"}
    assert curated.update().codes == {"filter_where": 1}
    curated.add("b", color=5, score=9)
    assert curated.update().codes == {"filter_where": 1, "skip_list": 1}


def test_what_cannot_be_applied_is_refused_naming_what_there_is(curated: Curated) -> None:
    curated.add("a", score="high", meta={"nsfw": 0.1})
    for curate, words in (
        ({"filters": {"where": "scor >= 5"}}, "where: no sample.*field scor; did you mean score?"),
        ({"group_key": "zzz"}, "curate.group_key: no sample.*there are meta.nsfw, score"),
        ({"filters": {"where": "score >= 5"}}, "Cannot compare.*score is string"),
        ({"skip_lists": ["gone.txt"]}, "gone.txt: cannot be read"),
    ):
        curated.curate = curate
        with pytest.raises(SettingError, match=words):
            curated.update()


def test_stale_tables_are_refused_with_the_command_that_makes_them(curated: Curated) -> None:
    curated.add("a", score=1)
    curated.curate = {"filters": {"where": "score > 0"}}
    index = curated.tables()
    curated.curate = {"filters": {"where": "other > 0"}}
    with pytest.raises(StageInputError, match="source_columns is missing or stale for 1 parts"):
        update_curate(curated.dataset, index)
    curated.dataset.layout.bucket("p00000").unlink()
    with pytest.raises(StageInputError, match="bucket is missing or stale"):
        update_curate(curated.dataset, index)
