from typing import Any

import pytest

from diffprep_resources.errors import SettingError
from diffprep_resources.sources.hub_layout import HubChoice, card_configs, files_of_split

SHARDS = ["data/train-00000-of-00002.parquet", "data/train-00001-of-00002.parquet"]


def files(paths: list[str], *, readme: str = "", **choice: Any) -> list[str]:
    return files_of_split(paths, HubChoice(**choice), readme=readme)


@pytest.mark.parametrize(
    ("paths", "split", "expected"),
    [
        ([*SHARDS, "data/test-00000-of-00001.parquet"], "train", SHARDS),
        (
            ["data/cats-00000-of-00001-ab12.parquet"],
            "cats",
            ["data/cats-00000-of-00001-ab12.parquet"],
        ),
        (["train/0.parquet", "test/0.parquet"], "train", ["train/0.parquet"]),
        (["my_train_file.parquet", "valid.parquet"], "validation", ["valid.parquet"]),
        (["default/train/0000.parquet"], "train", ["default/train/0000.parquet"]),
        (["b.parquet", "a/x.parquet"], "train", ["a/x.parquet", "b.parquet"]),
        (["train/test-0.parquet"], "test", ["train/test-0.parquet"]),
        (
            ["constraint.parquet", "latest.parquet"],
            "train",
            ["constraint.parquet", "latest.parquet"],
        ),
    ],
)
def test_splits_are_known_by_the_names_of_files_and_folders(
    paths: list[str], split: str, expected: list[str]
) -> None:
    assert files(paths, split=split) == expected


def test_a_split_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(SettingError, match=r"one of \['train'\], got 'val'.*data/train-00000"):
        files(SHARDS, split="val")


def test_a_configuration_can_be_a_folder() -> None:
    paths = ["small/train-00000.parquet", "large/train-00000.parquet"]
    assert files(paths, name="large") == ["large/train-00000.parquet"]
    with pytest.raises(SettingError, match=r"one of \['large', 'small'\], got 'huge'"):
        files(paths, name="huge")


CARD = """---
license: mit
configs:
- config_name: other
  data_dir: second
- config_name: main
  default: true
  data_files:
  - split: train
    path: ["first/*.parquet", "extra/a.parquet"]
  - split: held_out
    path: first/deep/**
---
# A dataset
"""
CARD_PATHS = ["extra/a.parquet", "extra/b.parquet", "first/1.parquet", "first/deep/2.parquet"]
CARD_PATHS += ["second/train-0.parquet"]


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ({}, ["extra/a.parquet", "first/1.parquet"]),
        ({"split": "held_out"}, ["first/deep/2.parquet"]),
        ({"name": "other"}, ["second/train-0.parquet"]),
        ({"name": "main", "split": "held_out"}, ["first/deep/2.parquet"]),
    ],
)
def test_the_card_decides_where_it_names_configurations(
    choice: dict[str, str], expected: list[str]
) -> None:
    assert files(CARD_PATHS, readme=CARD, **choice) == expected
    assert files(CARD_PATHS, readme=CARD.replace("\n", "\r\n"), **choice) == expected


def test_a_configuration_or_split_that_the_card_lacks_is_refused() -> None:
    with pytest.raises(SettingError, match=r"\['main', 'other'\], got 'third'"):
        files(CARD_PATHS, readme=CARD, name="third")
    with pytest.raises(SettingError, match=r"\['held_out', 'train'\], got 'test'"):
        files(CARD_PATHS, readme=CARD, split="test")
    undecided = CARD.replace("  default: true\n", "")
    with pytest.raises(SettingError, match="hf_name must be one of"):
        files(CARD_PATHS, readme=undecided)


@pytest.mark.parametrize(
    "readme", ["# no front matter", "---\ntitle: x\n---\n", "---\n- 1\n---\n", ""]
)
def test_a_card_without_configurations_leaves_it_to_the_names(readme: str) -> None:
    assert files(SHARDS, readme=readme) == SHARDS


def test_a_card_whose_front_matter_is_broken_is_refused() -> None:
    with pytest.raises(SettingError, match=r"README\.md"):
        files(SHARDS, readme="---\na: [\n---\n")


@pytest.mark.parametrize(
    ("data_files", "expected"),
    [
        ("extra/*", ["extra/a.parquet", "extra/b.parquet"]),
        (["extra/b.parquet", "./first/1.parquet"], ["extra/b.parquet", "first/1.parquet"]),
        ({"train": "**/2.parquet", "test": "*"}, ["first/deep/2.parquet"]),
        ("*/?.parquet", ["extra/a.parquet", "extra/b.parquet", "first/1.parquet"]),
        ("first", ["first/1.parquet", "first/deep/2.parquet"]),
        ("**", CARD_PATHS),
        ("first/**/**/*.parquet", ["first/1.parquet", "first/deep/2.parquet"]),
    ],
)
def test_patterns_of_the_recipe_come_before_all_else(
    data_files: object, expected: list[str]
) -> None:
    assert files(CARD_PATHS, readme=CARD, data_files=data_files) == expected


@pytest.mark.parametrize("pattern", ["/etc/*", "../x.parquet", "https://x.org/a.parquet", ""])
def test_patterns_that_lead_outside_are_refused(pattern: str) -> None:
    with pytest.raises(SettingError, match="relative to the dataset's folder"):
        files(CARD_PATHS, data_files=[pattern])


def test_patterns_without_a_match_and_unnamed_splits_are_refused() -> None:
    with pytest.raises(SettingError, match=r"matches no file.*extra/a\.parquet"):
        files(CARD_PATHS, data_files="none/*")
    with pytest.raises(SettingError, match=r"\['test'\], got 'train'"):
        files(CARD_PATHS, data_files={"test": "*"})


@pytest.mark.parametrize("configs", ["5", "true", "abc", "[1, null]"])
def test_configurations_of_another_kind_are_none(configs: str) -> None:
    assert card_configs(f"---\nconfigs: {configs}\n---\n") == {}
