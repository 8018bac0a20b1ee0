"""The plan over a folder of pictures, from its files on, without Dagster."""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from PIL import Image

from diffprep_assets.bucket.scan import BucketRules
from diffprep_assets.bucket.worker import BucketSpec, bucket_task
from diffprep_assets.curate.update import update_curate
from diffprep_assets.dataset import Dataset
from diffprep_assets.download.worker import DownloadSpec, download_task
from diffprep_assets.layout import Layout
from diffprep_assets.recipe.load import load_recipe
from diffprep_assets.recipe.stage_fields import bucket_fields, columns_fields
from diffprep_assets.rejects import read_rejects
from diffprep_assets.shard.record import SampleRow, ShardRecord, write_record, write_samples
from diffprep_assets.shard_plan.table import read_plan, samples_of_shard
from diffprep_assets.shard_plan.update import PlanUpdate, update_plan
from diffprep_assets.source_columns.worker import ColumnsSpec, columns_task
from diffprep_assets.source_index.listing import listed_index
from diffprep_assets.source_index.table import SourceIndex, write_index
from diffprep_resources.errors import DiffprepError, StageInputError


class PlannedFolder:
    """Pictures with a JSON file each, and a recipe; `plan` runs the stages up to the plan."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sections: dict[str, Any] = {"curate": {"group_key": "artist"}}

    def add(self, name: str, **fields: Any) -> None:
        path = self.folder / f"pictures/{name}.png"
        path.parent.mkdir(exist_ok=True)
        noise = np.random.default_rng(len(list(path.parent.iterdir()))).integers(0, 256, (9, 9, 3))
        Image.fromarray(noise.astype(np.uint8)).resize((64, 64)).save(path)
        path.with_suffix(".txt").write_text("a caption")
        path.with_suffix(".json").write_text(json.dumps(fields))

    def skip(self, *keys: str) -> None:
        (self.folder / "bad.txt").write_text("\n".join(keys))
        self.sections["curate"] |= {"skip_lists": ["bad.txt"]}

    @property
    def dataset(self) -> Dataset:
        recipe = {
            "source": {"type": "directory", "input_dir": "pictures"},
            "output": {"output_dir": "out", "formats": ["raw"], "shard_size": 4},
            "image": {"image_size": 64},
        }
        for section, values in self.sections.items():
            recipe[section] = {**recipe.get(section, {}), **values}
        path = self.folder / "set.yaml"
        path.write_text(yaml.safe_dump(recipe))
        return Dataset(load_recipe(path, base=self.folder), self.folder / "work")

    @property
    def layout(self) -> Layout:
        return self.dataset.layout

    def curated(self) -> SourceIndex:
        dataset = self.dataset
        layout, source, settings = dataset.layout, dataset.source, bucket_fields(dataset.recipe)
        index = listed_index(dataset)
        write_index(layout.source_index, index)
        rules = BucketRules(dataset.recipe.image, dataset.recipe.captions)
        columns = columns_fields(dataset.recipe)
        for part, paths in index.paths().items():
            stamps = download_task(part, paths, source=source, revision=None)
            DownloadSpec(layout, source).build().process(stamps, _unheard)
            task = bucket_task(layout, part, settings=settings, limit=None)
            assert task is not None
            BucketSpec(layout, source, rules, settings).build().process(task, _unheard)
            fields = columns_task(layout, part, source=source, settings=columns)
            assert fields is not None
            ColumnsSpec(layout, source, columns).build().process(fields, _unheard)
        update_curate(dataset, index)
        return index

    def plan(self, *, drop_skipped: bool = False) -> PlanUpdate:
        index = self.curated()
        return update_plan(self.dataset, index, drop_skipped=drop_skipped)

    def write_shards(self) -> None:
        """Every shard of the plan, as far as its record tells."""
        layout = self.layout
        layout.shards_folder.mkdir(exist_ok=True)
        for shard in {row.shard for row in read_plan(layout.shard_plan).samples if row.shard}:
            rows = [
                SampleRow(row.sample_id, row.key, 0, 1, "d", "l", "t", ())
                for row in samples_of_shard(layout.shard_plan, shard)
            ]
            layout.shard_file(shard).write_bytes(b"x")
            write_samples(layout.shard_samples(shard), rows)
            record = ShardRecord(shard, "f", 64, 64, 64, 0, len(rows), 1, 1, "d")
            write_record(layout.shard_record(shard), record)

    def shards(self) -> dict[str, list[str]]:
        """Names of the samples by shard, in capitals those that are skipped."""
        found: dict[str, list[str]] = defaultdict(list)
        for row in read_plan(self.layout.shard_plan).samples:
            if row.shard:
                name = Path(row.sample.source_key).stem
                found[row.shard].append(name.upper() if row.skipped else name)
        return dict(found)

    def rejects(self) -> dict[str, tuple[str, str]]:
        found = read_rejects(self.layout.rejects)
        return {Path(reject.source_key).stem: (reject.stage, reject.code) for reject in found}


def _unheard(num_samples: int, rejected: int = 0, /) -> None:
    pass


@pytest.fixture
def planned(tmp_path: Path) -> PlannedFolder:
    folder = PlannedFolder(tmp_path)
    for number, name in enumerate("abcdefgh"):
        folder.add(name, artist=f"artist {number // 2}")
    return folder


FIRST, SECOND = "g0-64-64x64-000000", "g0-64-64x64-000001"


def test_verdicts_keep_out_what_is_not_written_and_skip_what_is(planned: PlannedFolder):
    update = planned.plan()
    assert (update.listed, update.planned, update.skipped) == (8, 8, 0)
    planned.write_shards()
    planned.add("i")
    planned.skip("b.png", "i.png")
    update = planned.plan()
    assert planned.shards() == {FIRST: ["a", "B", "c", "d"], SECOND: list("efgh")}
    assert planned.rejects() == {"i": ("curate", "skip_list")}
    assert (update.listed, update.planned, update.skipped) == (9, 8, 1)
    assert update.rejects == {"skip_list": 1}
    assert not planned.plan().changed
    dropped = planned.plan(drop_skipped=True)
    assert (dropped.planned, dropped.skipped) == (7, 0)
    assert planned.shards()[FIRST] == ["a", "c", "d"]
    assert not planned.plan(drop_skipped=True).changed
    assert planned.rejects() == dict.fromkeys("bi", ("curate", "skip_list"))


def test_a_plan_with_nothing_left_to_write_or_to_serve_is_refused_and_not_kept(
    planned: PlannedFolder,
):
    planned.sections["curate"]["filters"] = {"min_side": 65}
    with pytest.raises(DiffprepError, match=r"0 samples to write: 8 listed, .*filter_min_side 8"):
        planned.plan()
    assert not planned.layout.shard_plan.exists()
    assert len(planned.rejects()) == 8
    del planned.sections["curate"]["filters"]
    planned.plan()
    planned.write_shards()
    before = planned.layout.shard_plan.read_bytes()
    planned.sections["curate"]["filters"] = {"min_side": 65}
    with pytest.raises(DiffprepError, match="0 samples to serve: 8 listed, 8 of them written and"):
        planned.plan()
    assert planned.layout.shard_plan.read_bytes() == before


def test_stale_verdicts_are_refused_with_the_command_that_makes_them(planned: PlannedFolder):
    index = planned.curated()
    planned.skip("a.png")
    with pytest.raises(StageInputError, match="curate is missing or stale; run `diffprep run set`"):
        update_plan(planned.dataset, index)


def test_samples_of_one_group_share_a_split_and_who_would_join_two_is_left_out(
    planned: PlannedFolder,
):
    halves: dict[str, Any] = {"splits": {"train": 0.5, "val": 0.5}}
    planned.sections["output"] = halves
    planned.plan()
    splits: dict[str, set[str]] = defaultdict(set)
    for row in read_plan(planned.layout.shard_plan).samples:
        splits[row.sample.group].add(row.split)
    assert sorted(splits) == [f"key:artist {number}" for number in range(4)]
    assert sorted(map(len, splits.values())) == [1] * 4
    assert {split for found in splits.values() for split in found} == {"train", "val"}

    # Whoever joins them all later finds them in two splits.
    planned.sections["curate"]["group_key"] = "school"
    for name in "abcdefgh":
        planned.folder.joinpath(f"pictures/{name}.json").write_text('{"school": "one"}')
    planned.add("i", school="one")
    planned.add("j", school="two")
    update = planned.plan()
    assert planned.rejects() == {"i": ("shard_plan", "split_leak")}
    assert update.mixed.first == {"key:one": ("train", "val")}
    assert update.planned == 9

    planned.sections["output"] = halves | {"resplit": True}
    update = planned.plan()
    assert (update.generation, update.planned, update.mixed.groups) == (1, 10, 0)
    assert planned.rejects() == {}
    planned.sections["output"] = halves
    assert planned.plan().generation == 1


def test_a_changed_caption_column_is_told_for_the_formats_that_hold_it(planned: PlannedFolder):
    planned.sections["output"] = {"formats": ["mds"]}
    planned.sections["mds"] = {"caption_columns": {"artist": 1.0}}
    before = planned.plan().shards
    planned.folder.joinpath("pictures/a.json").write_text('{"artist": "nobody"}')
    after = planned.plan().shards
    assert [shard.members_digest for shard in before] == [shard.members_digest for shard in after]
    pairs = list(zip(before, after, strict=True))
    for changed in (
        [old.columns_digest != new.columns_digest for old, new in pairs],
        [old.observed_digest != new.observed_digest for old, new in pairs],
    ):
        assert changed == [True, False]
