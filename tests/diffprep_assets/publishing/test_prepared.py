import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from diffprep_assets.layout import Layout
from diffprep_assets.publishing.prepared import (
    all_are_published,
    output_stamps,
    published_fingerprint,
)
from diffprep_assets.shard_plan.plan import PlannedShard
from diffprep_assets.stage_inputs import shards_of_plan
from diffprep_assets.validate.agreement import agreement_check

if TYPE_CHECKING:
    from tests.conftest import ProjectFolder

TWO = {"output.formats": ["energon", "raw"]}


def test_files_of_another_format_are_not_this_ones(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "storage", "demo", tmp_path / "out", "raw")
    for name in ("000000.tar", "energon/000000.tar", "mds/train/512/1.000/index.json", "notes/a"):
        path = layout.output_dir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
        os.utime(path, ns=(5, 5))
    assert output_stamps(layout) == {"000000.tar": [1, 5], "notes/a": [1, 5]}
    assert output_stamps(layout.of("energon")) == {"000000.tar": [1, 5]}
    assert output_stamps(layout.of("mds")).keys() == {"train/512/1.000/index.json"}


def test_a_dataset_is_published_when_every_format_that_the_recipe_lists_is(
    drawn_dataset: "ProjectFolder",
) -> None:
    dataset = drawn_dataset.dataset()
    shards = shards_of_plan(dataset)
    assert all_are_published(dataset, shards)
    assert not all_are_published(drawn_dataset.dataset(changes=TWO), shards)


def test_skips_count_for_what_is_published_and_for_nothing_before(
    drawn_dataset: "ProjectFolder",
) -> None:
    dataset = drawn_dataset.dataset()
    shards = shards_of_plan(dataset)

    def skipping(digest: str) -> list[PlannedShard]:
        return [replace(shards[0], num_skipped=1, skips_digest=digest), *shards[1:]]

    versions = (shards, skipping("a"), skipping("b"))
    assert len({published_fingerprint(dataset, version) for version in versions}) == 3
    for shard, skipped in zip(shards, skipping("a"), strict=True):
        assert dataset.shard_fingerprint(shard) == dataset.shard_fingerprint(skipped)


def test_formats_agree_only_when_each_shard_holds_the_plans_members(
    drawn_dataset: "ProjectFolder",
) -> None:
    dataset = drawn_dataset.dataset()
    shards = shards_of_plan(dataset)
    assert agreement_check(dataset, shards).passed
    other = [replace(shards[0], members_digest="0" * 32), *shards[1:]]
    (failure,) = agreement_check(dataset, other).failures
    assert "made of other samples or captions than the plan holds" in failure.message
    (failure,) = agreement_check(
        dataset, [replace(shards[0], num_samples=shards[0].num_samples + 1)]
    ).failures
    assert "0 rejects of" in failure.message
    missing = agreement_check(drawn_dataset.dataset(changes=TWO), shards).failures
    assert {failure.message.split(" ", 1)[0] for failure in missing} == {"raw:"}
